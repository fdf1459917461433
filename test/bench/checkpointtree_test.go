package bench

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// groveFiles is how many files the larger tree has of which checkpoints are made. By default it has 1 GiB.
var groveFiles = flag.Int("files", 50_000, "how many files the larger tree of the group Checkpoint has: 5000 or more")

const (
	groveSmallFiles = 5_000
	groveMean       = 21_475 // bytes of a file, in the mean
)

// groveName says how large the larger tree is, and groveCount how many files it has.
func groveName() string {
	return fmt.Sprintf("%s files and %.2g GiB", groveCount(), float64(*groveFiles)*groveMean/(1<<30))
}

func groveCount() string { return fmt.Sprintf("%d,%03d", *groveFiles/1000, *groveFiles%1000) }

// groveLines are what the files of a tree consist of. Each % becomes a name.
var groveLines = []string{
	"\tif err := %.%(ctx, %); err != nil {\n", "\t\treturn nil, fmt.Errorf(\"% % %\", err)\n\t}\n", "\tfor i, % := range %.% {\n",
	"\t\t% = append(%, %(%))\n", "// % % the % of a %, which % has.\n", "func (% *%) %(% string, % int) (%, error) {\n", "}\n\n", "\treturn %, nil\n",
	"\t% := %.%(%, \"%\")\n", "\tcase %:\n\t\t%.%()\n", "type % struct {\n\t% %\n\t% []%\n", "\tdefer %.%()\n", "\t\tcontinue // % is no %\n",
}

// plantTree makes a tree of files in directories of twenty. Most are like source text. One of 500 is
// like an archive, with a quarter of all bytes. The same arguments make the same tree.
func plantTree(dir string, files int) error {
	random := rand.New(rand.NewPCG(1, 2))
	names := make([]string, 5000)
	for i := range names {
		names[i] = word(random)
	}
	noise := rand.NewChaCha8([32]byte{})
	for i := range files {
		var text []byte
		if i%500 == 0 {
			text = make([]byte, 500*groveMean/4)
			_, _ = noise.Read(text)
		} else {
			text = source(random, names, int(random.ExpFloat64()*groveMean*3/4))
		}
		path := grovePath(dir, i)
		if i%20 == 0 {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func grovePath(dir string, i int) string {
	return filepath.Join(dir, fmt.Sprintf("part%02d/package%02d/file%02d.go", i/1000, i/20%50, i%20))
}

func word(random *rand.Rand) string {
	b := make([]byte, 3+random.IntN(10))
	for i := range b {
		b[i] = "etaoinshrdlucmfwypvbgkjqxz"[min(random.IntN(26), random.IntN(26))]
	}
	return string(b)
}

// source returns text of at least this size. A file uses some forty names.
func source(random *rand.Rand, names []string, size int) []byte {
	first := random.IntN(len(names) - 40)
	text := make([]byte, 0, size+200)
	for len(text) < size {
		for _, c := range []byte(groveLines[random.IntN(len(groveLines))]) {
			if c == '%' {
				text = append(text, names[first+min(random.IntN(40), random.IntN(40))]...)
			} else {
				text = append(text, c)
			}
		}
	}
	return text
}
