"""Made by `make stubs` out of the files `*.proto` beside it; no hand has been in it."""
