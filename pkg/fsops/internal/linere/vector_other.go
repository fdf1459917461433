//go:build !goexperiment.simd || !amd64

package linere

const (
	// maxAlternatives bounds the literals of which a match has to have one.
	maxAlternatives = maxLiterals
	// literalCost is what a literal more costs, in eighths of a bit.
	literalCost = 8
)

// newVectorSearch returns nil: the needles have to do.
func newVectorSearch([]literal) vectorSearch { return nil }
