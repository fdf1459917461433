package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// printable returns a name as it is, or in quotes if it would not stay on its
// line, or would speak to the terminal: names are whatever the sandbox makes
// them.
func printable(name string) string {
	if utf8.ValidString(name) && strings.IndexFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }) < 0 {
		return name
	}
	return strconv.Quote(name)
}

// bytesText returns a number of bytes for people: 12.3 MiB.
func bytesText(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, names := float64(n)/unit, "KMGTPE"
	for value >= unit {
		value, names = value/unit, names[1:]
	}
	return fmt.Sprintf("%.1f %ciB", value, names[0])
}
