"""Data as users hold them: mappings of named parts, labelled arrays, tables, fields with holes; as arrays and back."""
