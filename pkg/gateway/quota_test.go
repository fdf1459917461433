package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/ledger"
)

const sandboxes = "/api/v1/sandboxes"

// quotaDoors returns doors of several gateways over one state directory, with the tenants acme and
// other (see door), and the ledger that they share. acme is what acme's entry begins with, and key
// what follows its key.
func quotaDoors(t *testing.T, n int, acme, key string) ([]*door, ledger.Files) {
	t.Helper()
	l := launchertest.Local(t)
	files := ledger.Files{Dir: filepath.Join(l.StateDir, "ledgers")}
	doors := make([]*door, n)
	for i := range doors {
		own := &launcher.Local{StateDir: l.StateDir, Agent: l.Agent}
		doors[i] = doorOver(t, gateway.Options{Launcher: own, Ledger: files})
	}
	for _, d := range doors {
		d.writeQuota(acme, key)
	}
	return doors, files
}

func doorOver(t *testing.T, o gateway.Options) *door {
	t.Helper()
	d := &door{T: t, keys: filepath.Join(t.TempDir(), "keys.yaml")}
	o.Tenants = &gateway.Keys{Path: d.keys}
	g := gateway.New(o)
	server := httptest.NewServer(g)
	t.Cleanup(func() {
		server.Close()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	d.url = server.URL
	return d
}

func (d *door) writeQuota(acme, key string) {
	d.Helper()
	d.writeKeys(fmt.Sprintf("tenants:\n  acme:\n    %s\n    keys:\n    - name: ci\n      sha256: %s\n      %s\n    - name: other\n      sha256: %s\n  other:\n    keys:\n    - sha256: %s\n",
		acme, hashOf("a"), key, hashOf("b"), hashOf("o")))
}

// problemOf decodes a problem.
func problemOf(t *testing.T, a answer) (p struct {
	Class, Detail string
	Until         time.Time
},
) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.text), &p); err != nil {
		t.Errorf("%v: %s", err, a.text)
	}
	return p
}

func (d *door) mustBe(status int, a answer) answer {
	d.Helper()
	if a.StatusCode != status {
		d.Errorf("the answer is %d, want %d: %s", a.StatusCode, status, a.text)
	}
	return a
}

func (d *door) create(token, id string) answer {
	d.Helper()
	return d.send(token, "POST", sandboxes, fmt.Sprintf(`{"id":%q}`, id))
}

// bookOf returns what the tenant acme's book says.
func bookOf(t *testing.T, files ledger.Files) (text string) {
	t.Helper()
	err := files.Amend(t.Context(), "quota.acme", func(_ context.Context, old []byte) ([]byte, time.Time, error) {
		text = string(old)
		return old, time.Time{}, nil
	})
	if err != nil {
		t.Error(err)
	}
	return text
}

// mustBeEmpty fails the test if anything is left of the tenant acme's book.
func mustBeEmpty(t *testing.T, files ledger.Files) {
	t.Helper()
	if book := bookOf(t, files); book != "" {
		t.Errorf("the book says %s", book)
	}
}

func TestQuotaIsExactOverGateways(t *testing.T) {
	doors, files := quotaDoors(t, 3, "quota: {sandboxes: 10}", "")
	const creates = 64
	answers := make([]answer, creates)
	var all sync.WaitGroup
	for i := range creates {
		all.Go(func() { answers[i] = doors[i%3].create("a", fmt.Sprint("job-", i)) })
	}
	all.Wait()
	var made []string
	for i, a := range answers {
		switch a.StatusCode {
		case 201:
			made = append(made, fmt.Sprint("job-", i))
		case 429:
			if p := problemOf(t, a); p.Class != "quota_exceeded" || p.Detail != "the quota of sandboxes is used up: there are 10 of 10, and this takes 1 more" {
				t.Errorf("refused with %s", a.text)
			}
		default:
			t.Errorf("create: %d %s", a.StatusCode, a.text)
		}
	}
	if len(made) != 10 {
		t.Fatalf("made are %v, want 10", made)
	}
	mustBeEmpty(t, files)
	d := doors[0]
	d.mustBe(200, doors[1].create("a", made[3])) // again
	d.mustBe(429, d.create("a", "more"))
	d.mustBe(201, d.create("o", "more"))
	d.mustBe(204, doors[2].send("a", "DELETE", sandboxes+"/"+made[3], ""))
	d.mustBe(201, d.create("a", "more"))
	d.mustBe(429, doors[1].create("a", made[3]))
	mustBeEmpty(t, files)
}

func TestQuotaCountsAnIDOnce(t *testing.T) {
	doors, _ := quotaDoors(t, 3, "quota: {sandboxes: 1}", "")
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			if a := doors[i%3].create("a", "job"); a.StatusCode != 200 && a.StatusCode != 201 {
				t.Errorf("create: %d %s", a.StatusCode, a.text)
			}
		})
	}
	all.Wait()
}

func TestFailedLaunchGivesBackItsReservation(t *testing.T) {
	doors, files := quotaDoors(t, 1, "quota: {sandboxes: 1}\n    images: ['**']", "")
	d := doors[0]
	d.mustBe(422, d.send("a", "POST", sandboxes, `{"id":"job-1","image":"none"}`)) // which the local launcher refuses
	mustBeEmpty(t, files)
	d.mustBe(201, d.create("a", "job-2"))
}

// A gateway that is killed leaves its reservation, which ends by its time.
func TestReservationOfADeadGatewayEnds(t *testing.T) {
	doors, files := quotaDoors(t, 1, "quota: {sandboxes: 1}", "")
	left := func(until time.Time) {
		err := files.Amend(t.Context(), "quota.acme", func(context.Context, []byte) ([]byte, time.Time, error) {
			return fmt.Appendf(nil, `{"reserved":{"left":{"id":"acme.lost","until":%d,"amounts":{"sandboxes":1}}}}`, until.Unix()), until, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	d := doors[0]
	left(time.Now().Add(time.Hour))
	d.mustBe(429, d.create("a", "job-1"))
	left(time.Now().Add(-time.Second))
	d.mustBe(201, d.create("a", "job-1"))
	mustBeEmpty(t, files)
}

// A gateway that cannot count makes nothing: the ledger may be of a newer version, broken or missing.
func TestQuotaThatCannotBeCountedAdmitsNothing(t *testing.T) {
	doors, files := quotaDoors(t, 1, "quota: {sandboxes: 5}", "")
	d := doors[0]
	err := files.Amend(t.Context(), "quota.acme", func(context.Context, []byte) ([]byte, time.Time, error) {
		return []byte(`{"reserved":{},"newer":1}`), time.Time{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	d.mustBe(503, d.create("a", "job-1"))
	d.mustBe(201, d.create("o", "job-1")) // which has no quota
	d.writeQuota("quota: {cpu: 2}", "")
	if a := d.mustBe(501, d.create("a", "job-1")); !strings.Contains(a.text, "of sandboxes alone") {
		t.Error(a.text)
	}
	none := doorOver(t, gateway.Options{Launcher: launchertest.Local(t)})
	none.writeQuota("quota: {sandboxes: 5}", "")
	none.mustBe(503, none.create("a", "job-1"))
	none.mustBe(201, none.create("o", "job-1"))
}

// partialLauncher lists some of its sandboxes, with an error.
type partialLauncher struct{ *launcher.Local }

func (partialLauncher) List(context.Context) ([]launcher.Summary, error) {
	return nil, errors.New("the list is not whole")
}

func TestQuotaNeedsAWholeList(t *testing.T) {
	l := launchertest.Local(t)
	d := doorOver(t, gateway.Options{Launcher: partialLauncher{l}, Ledger: ledger.Files{Dir: t.TempDir()}})
	d.writeQuota("quota: {sandboxes: 5}", "")
	d.mustBe(503, d.create("a", "job-1"))
}

// Sandboxes of this machine do not end by themselves, so each takes 24 hours of tomorrow. Before six in the
// morning (UTC) it is today that has no room for a fourth one.
func TestBudgetIsOfAKeyAndADay(t *testing.T) {
	mayUse := regexp.MustCompile(`of 72h0m0s, sandboxes use or may use (72h0m0s|5[4-9]h.*|6.h.*|7[01]h.*), and this one may use (24h0m0s|1[89]h.*|2[0-3]h.*), unless it has a shorter lifetime_seconds$`)
	doors, files := quotaDoors(t, 2, "", "budget: {sandbox_hours_per_day: 72}")
	answers := make([]answer, 8)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = doors[i%2].create("a", fmt.Sprint("job-", i)) })
	}
	all.Wait()
	var made []string
	for i, a := range answers {
		if a.StatusCode == 201 {
			made = append(made, fmt.Sprint("job-", i))
			continue
		}
		p := problemOf(t, a)
		if a.StatusCode != 429 || p.Class != "budget_exceeded" || !strings.Contains(p.Detail, `the key "ci"`) || !mayUse.MatchString(p.Detail) {
			t.Errorf("create: %d %s", a.StatusCode, a.text)
		}
		if p.Until.UTC().Truncate(24*time.Hour) != p.Until.UTC() || p.Until.IsZero() || a.Header.Get("Retry-After") == "" {
			t.Errorf("until %v, Retry-After %q: want the end of a day", p.Until, a.Header.Get("Retry-After"))
		}
	}
	if len(made) != 3 {
		t.Fatalf("made are %v, want 3", made)
	}
	d := doors[0]
	d.mustBe(200, d.create("a", made[0]))   // again
	d.mustBe(201, d.create("b", "another")) // of a key without a budget
	d.mustBe(204, d.send("b", "DELETE", sandboxes+"/"+made[0], ""))
	if book := bookOf(t, files); !strings.Contains(book, made[1]) || strings.Contains(book, made[0]) {
		t.Errorf("%s was deleted, and the book says %s", made[0], book)
	}
	d.mustBe(201, d.create("a", "next"))
	d.mustBe(429, d.create("a", "last"))

	// What ended without the gateway is given back once it is found.
	if err := (&launcher.Local{StateDir: filepath.Dir(files.Dir)}).Terminate(t.Context(), "acme.next"); err != nil {
		t.Fatal(err)
	}
	d.mustBe(201, d.create("a", "last"))
}

func TestBudgetOfYesterdayDoesNotCount(t *testing.T) {
	doors, files := quotaDoors(t, 1, "", "budget: {sandbox_hours_per_day: 30}")
	used := func(at time.Time) {
		err := files.Amend(t.Context(), "quota.acme", func(context.Context, []byte) ([]byte, time.Time, error) {
			return fmt.Appendf(nil, `{"keys":{"ci":{"used":{%q:%d}}}}`, at.UTC().Format(time.DateOnly), 30*3600), at, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	d := doors[0]
	used(time.Now().AddDate(0, 0, 1)) // tomorrow's, on which the sandbox would live, too
	d.mustBe(429, d.create("a", "job-1"))
	used(time.Now().AddDate(0, 0, -1))
	d.mustBe(201, d.create("a", "job-1"))
}

func TestWrongQuotasLetNobodyIn(t *testing.T) {
	doors, _ := quotaDoors(t, 1, "", "")
	d := doors[0]
	for _, wrong := range [][2]string{
		{"quota: {sandboxes: -1}", ""},
		{"quota: {memory: 16Gib}", ""},
		{"quota: {sandbox: 1}", ""},
		{"", "budget: {sandbox_hours_per_day: -1}"},
		{"", "budget: {sandbox_hours_per_day: .nan}"},
		{"", "budget: {hours: 1}"},
	} {
		d.writeQuota(wrong[0], wrong[1])
		d.mustBe(503, d.send("o", "GET", sandboxes, ""))
	}
	d.writeQuota(`quota: {sandboxes: 10, cpu: "8", memory: 16Gi, storage: 100Gi}`, "budget: {sandbox_hours_per_day: 0.5}")
	d.mustBe(200, d.send("o", "GET", sandboxes, ""))
}
