"""The simulation: the real shell and reconcile on virtual time, in a world where all goes wrong."""
