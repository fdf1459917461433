package linere

// A vectorSearch looks for all literals of a pattern in one pass, with vector
// instructions, where the program was built with them and the processor has
// them (see vector_amd64.go). It leads to the same lines as the needles.
type vectorSearch interface {
	// find returns where a literal begins at or after from, -1 if there is none,
	// and whether it is a match as it is. Others may begin before it, but none
	// ends in a line before.
	find(text []byte, from int) (at int, exact bool)
}
