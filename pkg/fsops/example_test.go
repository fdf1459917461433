package fsops_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/podagent/podagent/pkg/fsops"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "fsops-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	files := fsops.New(dir)

	content := []byte("one\ntwo\nthree\n")
	w, err := files.Create("list.txt", fsops.WriteOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Write(content); err != nil {
		log.Fatal(err)
	}
	if _, err := w.Commit(ctx, fsops.SumOf(content)); err != nil {
		log.Fatal(err)
	}
	lines, err := files.ReadLines(ctx, "list.txt", fsops.LineOptions{First: 2, Max: 1})
	fmt.Printf("%q of %d lines, %v\n", lines.Text, lines.Total, err)
	for m, err := range files.Glob(ctx, "**/*.txt", fsops.GlobOptions{Sort: fsops.GlobByName}) {
		fmt.Println(m.Path, err)
	}
	// Output:
	// "two\n" of 3 lines, <nil>
	// list.txt <nil>
}
