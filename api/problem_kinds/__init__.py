"""The kinds of problems, in tables by what they are about; ``api.problems`` puts them together."""
