"""K members on one pair of PCAs: how they are made, their mean and spread, and how they adapt."""
