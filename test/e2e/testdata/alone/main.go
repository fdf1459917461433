// Alone is the only program of an image: "alone echo WORD..." prints the words,
// "alone cat" copies its input, "alone exit CODE" exits, and "alone serve FILE"
// writes a file, prints a line and waits for a signal to end.
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	var err error
	switch args := append(os.Args[1:], "", ""); args[0] {
	case "echo":
		_, err = fmt.Println(strings.Join(os.Args[2:], " "))
	case "cat":
		_, err = io.Copy(os.Stdout, os.Stdin)
	case "exit":
		code, _ := strconv.Atoi(args[1])
		os.Exit(code)
	case "serve":
		err = serve(args[1])
	default:
		err = fmt.Errorf("unknown verb %q", args[0])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(path string) error {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	if err := os.WriteFile(path, []byte("served by "+strconv.Itoa(os.Getuid())+"\n"), 0o644); err != nil {
		return err
	}
	fmt.Println("serving")
	<-end
	return nil
}
