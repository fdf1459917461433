package linere

// byteBits tells how rare a byte is: how many bits of information it carries,
// in eighths. It was measured over 330 MB of source code (the standard libraries
// of Go, Python and Perl, Kubernetes, and the headers of C) as 8·log2(all bytes
// / this byte).
var byteBits = [256]uint8{
	226, 206, 210, 208, 204, 206, 204, 192, 218, 44, 41, 208, 162, 153, 193, 218,
	206, 196, 196, 198, 218, 199, 169, 199, 210, 218, 214, 200, 201, 206, 204, 204,
	21, 84, 56, 68, 82, 86, 80, 68, 52, 52, 59, 84, 48, 63, 52, 55,
	49, 57, 60, 65, 65, 67, 66, 72, 67, 68, 57, 69, 78, 61, 75, 106,
	94, 57, 68, 57, 63, 54, 65, 69, 74, 57, 93, 76, 59, 64, 58, 58,
	58, 89, 57, 52, 56, 69, 69, 79, 71, 79, 93, 74, 74, 74, 109, 44,
	91, 40, 57, 44, 46, 32, 49, 54, 52, 39, 82, 59, 45, 51, 39, 40,
	48, 80, 39, 39, 36, 48, 58, 64, 54, 57, 80, 64, 84, 64, 108, 206,
	125, 132, 130, 134, 140, 137, 137, 137, 131, 140, 140, 147, 142, 147, 145, 135,
	142, 140, 142, 139, 133, 138, 133, 139, 137, 135, 146, 147, 138, 138, 144, 125,
	143, 144, 146, 145, 139, 141, 142, 141, 145, 137, 144, 144, 142, 143, 144, 147,
	145, 139, 141, 141, 144, 144, 145, 112, 127, 132, 141, 143, 136, 142, 140, 147,
	214, 208, 111, 132, 155, 154, 182, 163, 173, 156, 157, 170, 149, 159, 126, 140,
	123, 135, 182, 177, 180, 161, 146, 136, 134, 133, 167, 166, 184, 198, 202, 188,
	127, 137, 114, 134, 152, 143, 141, 147, 149, 157, 159, 167, 165, 173, 208, 150,
	125, 206, 199, 192, 199, 202, 197, 218, 198, 214, 214, 218, 204, 194, 199, 201,
}

// bits returns how many bits of information a literal carries, in eighths.
func (l literal) bits() int {
	sum := 0
	for i := range len(l.text) {
		sum += int(byteBits[l.text[i]])
		if l.fold && isLetter(rune(l.text[i])) {
			sum -= 8
		}
	}
	return sum
}

// worth returns the worth of a list of literals: the bits of its commonest literal,
// less literalCost for each literal, since each takes time. Beyond maxWorth a
// literal is so rare that more bits do not help.
func worth(list []literal) int {
	least := maxLiteral * len(byteBits)
	for _, l := range list {
		least = min(least, l.bits())
	}
	return min(least, maxWorth) + least/16 - literalCost*len(list)
}

// better returns the list that is worth more.
func better(a, b []literal) []literal {
	switch {
	case a == nil:
		return b
	case b == nil || worth(a) >= worth(b):
		return a
	}
	return b
}

// useful reports whether it pays to look for the literals.
func useful(list []literal) bool { return list != nil && worth(list) >= minWorth }
