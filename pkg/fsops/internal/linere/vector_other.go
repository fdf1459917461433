//go:build !goexperiment.simd || !amd64

package linere

const (
	// maxAlternatives bounds the literals of which a match must have one.
	maxAlternatives = maxLiterals
	// literalCost is the cost of another literal, in eighths of a bit.
	literalCost = 8
)

// newVectorSearch returns nil, so that the needles search.
func newVectorSearch([]literal) vectorSearch { return nil }
