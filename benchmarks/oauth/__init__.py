"""Sign-in proved with real clients, a real browser, real identity providers and a stopwatch."""
