// Command page prints docs/contracts.md, and fails if a row of a contract is wrong.
package main

import (
	"fmt"
	"os"

	"github.com/podagent/podagent/test/contracts"
)

func main() {
	text, err := contracts.Page()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Print(text)
}
