"""Hazards met in real systems, tried on this machine and looked for in a program: `migrate parity --hazards`."""
