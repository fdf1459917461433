//go:build linux

package launcher_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

func TestMain(m *testing.M) { os.Exit(launchertest.Main(m)) }

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
