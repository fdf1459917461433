package tools

import (
	"fmt"
	"strings"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
)

// claudeVoice answers as the tools of Claude Code do. What these do not say, such as
// how to get the rest of a result, is in brackets at the end, as in the own dialect.
type claudeVoice struct{}

// lines shows the lines with their numbers. A text that ends with the end of a line
// has another, empty one.
func (claudeVoice) lines(env *Env, in readInput, l fsops.Lines) Result {
	text := string(l.Text)
	switch {
	case l.Attr.Size == 0 && text == "":
		return Text("<system-reminder>Warning: the file exists but the contents are empty.</system-reminder>")
	case l.Count == 0:
		return Text(fmt.Sprintf("<system-reminder>Warning: the file exists but is shorter than the provided offset (%d). The file has %s.</system-reminder>",
			in.Offset, count(int(l.Total), "line")))
	case l.CutLine:
		text = env.redactor.RedactHead(text)
	}
	more := l.First+l.Count-1 < l.Total || l.Total < 0 || l.CutLine
	if more {
		text = strings.TrimSuffix(text, "\n")
	}
	// A secret may span lines, so that it is found only before there are numbers.
	text = env.redactor.Redact(text)
	var out strings.Builder
	for i, line := range strings.Split(text, "\n") {
		fmt.Fprintf(&out, "%d\t%s\n", l.First+int64(i), strings.TrimSuffix(line, "\r"))
	}
	notes := peculiarities(l)
	if ours := in.Limit == 0 || in.Limit > MaxLines; more && ours || l.Truncated || l.CutLine {
		notes = header(l, ours) + notes
	}
	if notes != "" {
		out.WriteString("\n" + notes)
	}
	return Text(strings.TrimSuffix(out.String(), "\n"))
}

func (claudeVoice) wrote(in writeInput, w fsops.WriteResult) string {
	if w.Created {
		return "File created successfully at: " + in.Path
	}
	return fmt.Sprintf("The file %s has been updated successfully.", in.Path)
}

func (claudeVoice) edited(_ *Env, in editInput, _ fsops.EditResult) string {
	if in.ReplaceAll {
		return fmt.Sprintf("The file %s has been updated. All occurrences were successfully replaced.", in.Path)
	}
	return fmt.Sprintf("The file %s has been updated successfully.", in.Path)
}

func (claudeVoice) refused(_ *Env, in editInput, r refusal) string {
	switch {
	case r.same:
		return "No changes to make: old_string and new_string are exactly the same."
	case r.exists:
		return "Cannot create new file - file already exists."
	case r.count == 0:
		return fmt.Sprintf("String to replace not found in file. %s\nString: %s", r.hint, in.OldText)
	}
	return fmt.Sprintf("Found %d matches of the string to replace%s, but replace_all is false. "+
		"Set replace_all to change all of them, or include more of the text around the one that you mean.\nString: %s", r.count, r.where(), in.OldText)
}

func (claudeVoice) missing(env *Env, doing, name, offer string) string {
	what := "File"
	switch doing {
	case "search in":
		what = "Path"
	case "run in":
		what = "Directory"
	}
	return fmt.Sprintf("%s does not exist: %s. %s", what, env.name(name), offer)
}

// ran says first with which exit code a command ended, if that is not 0.
func (claudeVoice) ran(c ranCommand) Result {
	output, status := strings.TrimRight(c.output, "\n"), c.status
	how := ending(status, c.timeout, c.slow)
	switch status.Reason {
	case podapi.Exited, podapi.Signalled:
		how = remarks(status, "use run_in_background for such commands")
	case podapi.TimedOut:
		how = fmt.Sprintf("Command timed out after %v. %s.\n", c.timeout, c.slow) + remarks(status, "use run_in_background for such commands")
	}
	code := ""
	if status.Reason != podapi.AgentLost && status.Code != 0 {
		code = fmt.Sprintf("Exit code %d\n", status.Code)
	}
	if output == "" && how == "" && code == "" {
		return Text("(Bash completed with no output)")
	}
	if output != "" || how != "" || c.omitted > 0 {
		output = report(output, how, c.omitted)
	}
	result := Text(strings.TrimSuffix(code+output, "\n"))
	result.IsError = status.Reason != podapi.Exited || status.Code != 0
	return result
}

func (claudeVoice) started(id string) string {
	return fmt.Sprintf("Command running in background with ID: %s. Use TaskOutput with this task_id to read its output, and TaskStop to end it.", id)
}

func (claudeVoice) followed(f followedCommand) string {
	retrieval, state, code, remark := "not_ready", "running", "", ""
	if f.status != nil {
		retrieval, state = "success", "completed"
		if f.status.Reason != podapi.Exited {
			state = "killed"
		} else if f.status.Code != 0 {
			state = "failed"
		}
		code = fmt.Sprintf("<exit_code>%d</exit_code>\n\n", f.status.Code)
		remark = remarks(*f.status, "end it with kill in Bash")
	}
	output := ""
	if f.output != "" || f.omitted > 0 {
		output = endLine(report(f.output, "", f.omitted))
	}
	return fmt.Sprintf("<retrieval_status>%s</retrieval_status>\n\n<task_id>%s</task_id>\n\n<task_type>local_bash</task_type>\n\n<status>%s</status>\n\n%s<output>\n%s</output>",
		retrieval, f.id, state, code, output+remark)
}

func (claudeVoice) stopped(id string) string {
	return fmt.Sprintf("Successfully stopped task: %s\n", id)
}
