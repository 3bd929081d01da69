"""Which formula an implementation computes, found out with designed probes."""
