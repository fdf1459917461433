package gateway

import (
	"math/bits"
	"slices"
	"strings"
)

// wordSet finds words in a text by one look at each byte: each call of a caller is looked through for what its secrets have
// in common, and most have none.
type wordSet struct {
	words         []string    // up to 64, of two bytes or more
	first, second [256]uint64 // the words that have a byte at this place, by their bits
}

// allSecretWords are those of all secretTexts.
var allSecretWords = newWordSet(secretTexts)

func newWordSet(texts []secretText) *wordSet {
	w := &wordSet{}
	for _, text := range texts {
		for _, word := range text.words {
			if slices.Contains(w.words, word) {
				continue
			}
			if len(w.words) == 64 || len(word) < 2 {
				panic("a set of words has up to 64 of two bytes or more")
			}
			w.first[word[0]] |= 1 << len(w.words)
			w.second[word[1]] |= 1 << len(w.words)
			w.words = append(w.words, word)
		}
	}
	return w
}

// in returns the bits of the words that are in a text.
func (w *wordSet) in(text string) (found uint64) {
	for i := range len(text) - 1 {
		for may := w.first[text[i]] & w.second[text[i+1]] &^ found; may != 0; may &= may - 1 {
			if n := bits.TrailingZeros64(may); strings.HasPrefix(text[i:], w.words[n]) {
				found |= 1 << n
			}
		}
	}
	return found
}

// set returns the bits of some of the words.
func (w *wordSet) set(words []string) (set uint64) {
	for _, word := range words {
		set |= 1 << slices.Index(w.words, word)
	}
	return set
}
