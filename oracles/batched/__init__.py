"""The oracle on whole arrays: what `oracles.expectation` says, for batches of any size."""
