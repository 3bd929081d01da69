"""The pages of `reports/published`: what was judged and measured, each with the command that makes it again."""
