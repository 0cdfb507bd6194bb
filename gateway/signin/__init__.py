"""How people sign in with a browser, and what they allow: passwords, providers, consent, devices."""
