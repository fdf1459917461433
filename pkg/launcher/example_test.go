//go:build linux

package launcher_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
)

func TestMain(m *testing.M) {
	if !playRole() {
		os.Exit(launchertest.Main(m))
	}
}

// A retry of the same job finds the files of the first try.
func ExampleLauncher() {
	ctx := context.Background()
	var l launcher.Launcher = &launcher.Local{}
	for try := range 2 {
		s, err := l.Launch(ctx, launcher.Spec{ID: "job-17"})
		if err != nil {
			log.Fatal(err)
		}
		if s.Created {
			if err := s.WriteFile(ctx, "progress", []byte("half"), 0o644); err != nil {
				log.Fatal(err)
			}
		}
		progress, err := s.ReadFile(ctx, "progress")
		fmt.Println("try", try+1, "finds", string(progress), err)
		s.Close() // the process that runs this may also crash here
	}
	fmt.Println(l.Terminate(ctx, "job-17"))
	// Output:
	// try 1 finds half <nil>
	// try 2 finds half <nil>
	// <nil>
}

// A job: copy a directory into a sandbox, work there, and copy the result back. Every
// error ends it, and the sandbox ends with it.
func ExampleSandbox() {
	dir, err := os.MkdirTemp("", "job-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	source, result := filepath.Join(dir, "source"), filepath.Join(dir, "result")
	err = os.CopyFS(source, fstest.MapFS{"main.go": {Data: []byte("package main // TODO: all\n")}})
	if err == nil {
		err = job(context.Background(), &launcher.Local{}, source, result)
	}
	made, readErr := os.ReadFile(filepath.Join(result, "report"))
	fmt.Println(string(made), errors.Join(err, readErr))
	// Output:
	// building
	// built
	// main.go:1: package main // TODO: all
	// 1 file <nil>
}

// job copies a directory there, does its work, and copies the result to a directory
// that it makes.
func job(ctx context.Context, l launcher.Launcher, source, result string) (err error) {
	s, err := l.Launch(ctx, launcher.Spec{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Terminate(context.WithoutCancel(ctx))) }()
	if _, err := s.Push(ctx, source, ".", podapi.TransferOptions{}); err != nil {
		return err
	}
	build := s.Command(ctx, "sh", "-c", "echo building; mkdir -m 0 private; mkdir out; printf '1 file' > out/report; echo built")
	build.Stdout, build.Stderr = os.Stdout, os.Stderr // as it comes
	if err := build.Run(); err != nil {
		return err
	}
	for r, err := range s.Grep(ctx, "TODO", fsops.GrepOptions{}) {
		if errors.Is(err, fsops.ErrSkipped) {
			log.Print(err) // the job accepts that it may not read everything, such as private
			break
		}
		if err != nil {
			return err
		}
		fmt.Printf("%s:%d: %s\n", r.Path, r.Line, r.Text)
	}
	_, err = s.Pull(ctx, "out", result, podapi.TransferOptions{})
	return err
}
