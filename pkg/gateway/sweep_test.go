package gateway_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/leader"
	"github.com/podagent/podagent/pkg/launcher/ledger"
)

// Reservations of a gateway that died, and the time of a sandbox that is gone, are taken out of the
// book by the gateway that leads, with the book itself; what lives stays, and so do the files of
// others. When the gateway ends, the next one goes on.
func TestLeadingGatewaySettlesTheBooks(t *testing.T) {
	files, l := ledger.Files{Dir: t.TempDir()}, launchertest.Local(t)
	lead := &leader.File{Path: filepath.Join(files.Dir, "leader.lock")}
	write := func(tenant, text string) {
		err := files.Amend(t.Context(), "quota."+tenant, func(context.Context, []byte) ([]byte, time.Time, error) {
			return []byte(text), time.Time{}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now().Unix()
	dead := fmt.Sprintf(`{"reserved":{"t":{"id":"gone.job-1","until":%d,"amounts":{}}}}`, now-1)
	living := fmt.Sprintf(`{"reserved":{"t":{"id":"acme.job-1","until":%d,"amounts":{}}},"keys":{"k":{"open":{"acme.job-2":{"from":%d}}}}}`, now+3600, now-3600)
	write("acme", living)
	write("broken", "this is no book")
	for range 2 {
		write("gone", dead)
		g := gateway.New(gateway.Options{Launcher: l, Ledger: files, Leader: lead})
		for deadline := time.Now().Add(hung); ; time.Sleep(time.Millisecond) {
			if _, err := os.Stat(filepath.Join(files.Dir, "quota.gone")); os.IsNotExist(err) && bookOf(t, files) != living {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("it is never settled")
			}
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
	names, err := files.Names(t.Context())
	if err != nil || fmt.Sprint(names) != "[quota.acme quota.broken]" {
		t.Errorf("the ledger has %v: %v", names, err)
	}
}
