"""What is fed in: batches, loss specs, cases, and the regions of input space they come from."""
