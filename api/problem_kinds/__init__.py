"""The kinds of problems, in tables by what they are about; ``api.http.problems`` puts them together."""
