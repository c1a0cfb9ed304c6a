package chain

// BatchPath answers several paths in one answer, all at one block, in every dialect.
const BatchPath = "/batch"

// Bounds of a batch.
const (
	MaxBatchPaths = 20
	MaxBatchBytes = 4 << 20 // of its answers together, not encoded
)
