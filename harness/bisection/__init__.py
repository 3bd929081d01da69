"""Since when is a cell as it is? The release, or the commit, where it changed."""
