"""Array types, settings, random generators and devices, which all other packages use."""
