package fsops

import (
	"bytes"
	"context"
	"syscall"
)

// An edited is a content after some edits.
type edited struct {
	content []byte
	// counts is how often each edit replaced its text.
	counts []int
	// pieces says how the content came from the original.
	pieces *pieces
}

// applyEdits applies the edits to content in their order.
func applyEdits(ctx context.Context, content []byte, edits []Edit) (edited, error) {
	res := edited{content: content, pieces: newPieces(len(content), diffHunks(len(content)))}
	for i, e := range edits {
		if err := ctx.Err(); err != nil {
			return edited{}, err
		}
		count := occurrences(res.content, e)
		if count == 0 || count > 1 && !e.All {
			return edited{}, editError(res.content, i, e, count)
		}
		size := int64(len(res.content)) + int64(count)*int64(len(e.New)-len(e.Old))
		if size > MaxEditSize {
			return edited{}, syscall.EFBIG
		}
		res.pieces.edit(res.content, e)
		res.content = bytes.Replace(res.content, e.Old, e.New, count)
		res.counts = append(res.counts, count)
	}
	return res, nil
}

// occurrences returns how often the edit's old text occurs. If all are replaced, it
// does not count overlaps. If there must be only one, it counts them, since the
// edit must be unambiguous.
func occurrences(content []byte, e Edit) int {
	if e.All {
		return bytes.Count(content, e.Old)
	}
	first := bytes.Index(content, e.Old)
	if first < 0 {
		return 0
	}
	if !bytes.Contains(content[first+1:], e.Old) {
		return 1
	}
	return countOverlapping(content, e.Old)
}

// countOverlapping returns how often text occurs in content, overlaps
// included, by the algorithm of Knuth, Morris and Pratt: searching again from
// each occurrence would take hours in a large file of few distinct bytes.
func countOverlapping(content, text []byte) int {
	border := borders(text)
	count, matched := 0, 0
	for _, b := range content {
		for matched > 0 && (matched == len(text) || text[matched] != b) {
			matched = int(border[matched-1])
		}
		if text[matched] == b {
			matched++
		}
		if matched == len(text) {
			count++
		}
	}
	return count
}

// borders returns for each prefix of text the length of its longest proper
// prefix that is also its suffix.
func borders(text []byte) []int32 {
	border := make([]int32, len(text))
	for i, k := 1, int32(0); i < len(text); i++ {
		for k > 0 && text[k] != text[i] {
			k = border[k-1]
		}
		if text[k] == text[i] {
			k++
		}
		border[i] = k
	}
	return border
}
