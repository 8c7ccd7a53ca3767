"""What everything stands on: arrays of any library, linear algebra, random numbers, threads."""
