package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// A report has all measurements, and where they were made.
type report struct {
	Machine string `json:"machine"`
	// Unmeasured are the groups that published results lack.
	Unmeasured []string `json:"unmeasured,omitempty"`
	Rows       []*row   `json:"rows"`
}

// A row compares podagent with its peers in one respect.
type row struct {
	Group    string `json:"group"`
	What     string `json:"what"`
	Unit     string `json:"unit"`              // of all figures; less is better
	Machine  string `json:"machine,omitempty"` // if it is not the report's
	Podagent figure `json:"podagent"`
	Peers    []peer `json:"peers"`
}

// A figure is the result of a side: the median, and the limits of the middle half.
type figure struct {
	Name   string  `json:"name"`
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Count  int     `json:"count"` // 0 for a limit, which is not measured
}

// A peer is a program that podagent is compared with, or a limit.
type peer struct {
	figure
	// Better is the peer's figure divided by podagent's. Target is the least that
	// Better should be, or 0.
	Better float64 `json:"times_better"`
	Target float64 `json:"target,omitempty"`
}

func newRow(group, what, unit string, podagent figure) *row {
	return &row{Group: group, What: what, Unit: unit, Podagent: podagent}
}

// once returns the figure of a single measurement.
func once(name string, value float64) figure { return figure{name, value, value, value, 1} }

func (r *row) beside(f figure) *row {
	r.Peers = append(r.Peers, peer{figure: f, Better: f.Median / r.Podagent.Median})
	return r
}

// want sets how many times better than a peer podagent should be.
func (r *row) want(name string, target float64) *row {
	r.peer(name).Target = target
	return r
}

// limit adds the largest figure that podagent may have.
func (r *row) limit(name string, value float64) *row {
	return r.beside(figure{Name: name, Median: value, Low: value, High: value}).want(name, 1)
}

func (r *row) peer(name string) *peer {
	for i := range r.Peers {
		if r.Peers[i].Name == name {
			return &r.Peers[i]
		}
	}
	panic(fmt.Sprintf("%s has no peer %q", r.What, name))
}

// median returns a peer's median.
func (r *row) median(name string) float64 { return r.peer(name).Median }

func (p *peer) missed() bool { return p.Better < p.Target }

// verdict says whether the target is met. It is empty if there is none.
func (p *peer) verdict() string {
	switch {
	case p.Target == 0:
		return ""
	case p.missed():
		return "missed"
	}
	return "met"
}

func (p *peer) target() string {
	if p.Target == 0 {
		return ""
	}
	return fmt.Sprintf("%.3g×", p.Target)
}

// text returns the figure in its unit, with the middle half if it was measured.
func (f *figure) text(unit string) string {
	if f.Count <= 1 {
		return f.short(unit)
	}
	return fmt.Sprintf("%s (%s–%s)", f.short(unit), number(f.Low), number(f.High))
}

func (f *figure) short(unit string) string { return strings.TrimSpace(number(f.Median) + " " + unit) }

// number formats with three digits, or more before the decimal point.
func number(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// String returns the row as lines of text.
func (r *row) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s, %s: %s", r.Group, r.What, r.Podagent.text(r.Unit))
	for _, p := range r.Peers {
		fmt.Fprintf(&text, "\n    %s: %s, %.2f× %s %s", p.Name, p.text(r.Unit), p.Better, p.target(), p.verdict())
	}
	return text.String()
}

// writeTable prints a line for each peer of each row.
func (r *report) writeTable(w io.Writer) error {
	fmt.Fprintf(w, "\n%s. Medians, and the middle half of all; better is the peer's figure divided by podagent's.\n\n", r.Machine)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "GROUP\tWHAT\tPODAGENT\tPEER\t\tBETTER\tTARGET\t")
	for _, row := range r.Rows {
		for _, p := range row.Peers {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%.2f×\t%s\t%s\n", row.Group, row.What, row.Podagent.text(row.Unit), p.Name, p.text(row.Unit), p.Better, p.target(), p.verdict())
		}
	}
	return table.Flush()
}

// A choice selects the peers of rows that a table shows.
type choice func(row *row, p *peer) bool

// everything selects all peers, and targeted those with a target.
func everything(*row, *peer) bool     { return true }
func targeted(_ *row, p *peer) bool   { return p.Target != 0 }
func headline(row *row, p *peer) bool { return slices.Contains(headlines[row.What], p.Name) }

// headlines are shown in README.md: what users do most, compared with what they
// would use otherwise.
var headlines = map[string][]string{
	"exec true":                           {"client-go exec", "kubectl exec"},
	"write 4 KiB":                         {"base64 through client-go exec"},
	"read 256 MiB through the API server": {"kubectl cp"},
	"grep for four literals, in an agent": {"rg"},
	"adopt by a new orchestrator, to the first exec's result": {"client-go exec"},
	"memory (PSS), idle": {"limit"},
}

// markdown returns a table in Markdown.
func (r *report) markdown(chosen choice) string {
	var text strings.Builder
	text.WriteString("| what | podagent | peer or limit | | better | target |\n|---|---|---|---|---|---|\n")
	for _, row := range r.Rows {
		for _, p := range row.Peers {
			if chosen(row, &p) {
				text.WriteString(row.markdown(&p))
			}
		}
	}
	fmt.Fprintf(&text, "\n%s. Medians of interleaved runs. *Better* is the peer's figure divided by podagent's; bold is below the target.\n", r.Machine)
	for _, machine := range r.otherMachines(chosen) {
		fmt.Fprintf(&text, "\nOn another machine, %s: %s.\n", machine, strings.Join(r.groupsOn(machine), ", "))
	}
	return text.String()
}

// page returns all results, and says what is not among them.
func (r *report) page() string {
	text := r.markdown(everything)
	if len(r.Unmeasured) > 0 {
		text += fmt.Sprintf("\nNot measured yet: %s.\n", strings.Join(r.Unmeasured, ", "))
	}
	return text
}

// markdown returns a peer's line in a Markdown table.
func (r *row) markdown(p *peer) string {
	better := fmt.Sprintf("%.2f×", p.Better)
	if p.missed() {
		better = "**" + better + "**"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n", r.What, r.Podagent.short(r.Unit), p.Name, p.short(r.Unit), better, p.target())
}

func (r *report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// allGroups are the groups of rows.
var allGroups = []string{"calls", "checkpoints", "console", "cost", "many", "scale", "search", "start", "streams", "tools"}

// missed returns a line for each missed target.
func (r *report) missed() []string {
	var missed []string
	for _, row := range r.Rows {
		for _, p := range row.Peers {
			if p.missed() {
				missed = append(missed, fmt.Sprintf("%s, %s: %.2f× better than %s, target %s", row.Group, row.What, p.Better, p.Name, p.target()))
			}
		}
	}
	return missed
}
