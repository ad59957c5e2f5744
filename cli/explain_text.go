package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/cli/explain"
)

// writeExplanation writes an explanation for people.
func writeExplanation(w io.Writer, e explain.Explanation) error {
	err := table(w, [][]string{
		{"Pod:", e.Namespace + "/" + e.Pod},
		{"Service account:", accountText(e)},
		{"Policy:", modeText(e.Mode)},
		{"Node:", nodeText(e.Node)},
	})
	if err != nil {
		return err
	}
	writeRemarks(w, "Remarks", e.Remarks)
	for _, c := range e.Containers {
		if err := writeContainer(w, c); err != nil {
			return err
		}
	}
	return nil
}

func accountText(e explain.Explanation) string {
	if e.Node.AccountsUnknown {
		return e.ServiceAccount + ", unknown to the agent"
	}
	return e.ServiceAccount
}

func modeText(mode string) string {
	if mode == "observe" {
		return "mode observe: nothing is set or refused"
	}
	return "mode " + mode
}

func nodeText(n explain.Node) string {
	memory, controllers := "memory unknown", "controllers unknown"
	if n.Memory > 0 {
		memory = "memory " + api.Bytes(n.Memory).String()
	}
	if n.Controllers != nil {
		controllers = "controllers " + strings.Join(n.Controllers, " ")
	}
	return fmt.Sprintf("%s, %s, %s, granted to other launchers: %s",
		cmp.Or(n.Architecture, "architecture unknown"), memory, controllers, api.Bytes(n.Granted))
}

func writeContainer(w io.Writer, c explain.Container) error {
	fmt.Fprintf(w, "\n%s %s: %s\n", capital(string(c.Kind)), strconv.Quote(c.Name), outcomeText(c))
	fmt.Fprintf(w, "  because %s\n", printable(c.Why))
	if !c.Launcher {
		return nil
	}
	limit := "none"
	if c.MemoryLimit > 0 {
		limit = api.Bytes(c.MemoryLimit).String()
	}
	fmt.Fprintf(w, "  with a memory limit of: %s\n", limit)
	if err := writeRules(w, c.Rules); err != nil {
		return err
	}
	if err := writeSettings(w, c.Settings); err != nil {
		return err
	}
	title := "Refused"
	if c.Outcome != explain.Refused {
		title = "In mode enforce it would be refused"
	}
	section(w, title, c.Refusal)
	section(w, "The kernel would show", kernelText(c.Kernel))
	section(w, "Notes", strings.Join(c.Notes, "\n"))
	writeRemarks(w, "Events", slices.DeleteFunc(slices.Clone(c.Remarks),
		func(r explain.Remark) bool {
			return c.Refusal != "" && strings.HasSuffix(r.Message, c.Refusal) // already printed
		}))
	return nil
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func outcomeText(c explain.Container) string {
	switch {
	case c.Outcome == explain.LeftAlone:
		return "left alone"
	case c.Outcome == explain.Refused:
		return "refused"
	case c.Outcome == explain.Observed:
		return "created without changes"
	case len(c.Settings) == 0:
		return "created; it requests nothing"
	}
	return "created with all requested settings"
}

func writeRules(w io.Writer, rules []explain.RuleTrace) error {
	if len(rules) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nRules, in the file's order:")
	var rows [][]string
	for _, r := range rules {
		verdict := "no"
		if r.Decides {
			verdict = "decides"
		}
		rows = append(rows, []string{"  " + strconv.Quote(r.Name), verdict, r.Why})
	}
	return table(w, rows)
}

func writeSettings(w io.Writer, settings []agentapi.Setting) error {
	if len(settings) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	rows := [][]string{{"SETTING", "ASKED", "ALLOWED", "GIVEN"}}
	for _, s := range settings {
		rows = append(rows, []string{s.Name, s.Requested, s.Allowed, s.Given})
	}
	if err := table(w, rows); err != nil {
		return err
	}
	for _, s := range settings {
		if err := sum(w, s); err != nil {
			return err
		}
	}
	return nil
}

func kernelText(files []explain.KernelFile) string {
	lines := make([]string, len(files))
	for i, f := range files {
		content := cmp.Or(f.Content, "no limit")
		lines[i] = f.File + ": " + strings.ReplaceAll(content, "\n", "\n  ")
		if f.File == explain.LimitsFile {
			lines[i] = content
		}
	}
	return strings.Join(lines, "\n")
}

func writeRemarks(w io.Writer, title string, remarks []explain.Remark) {
	lines := make([]string, len(remarks))
	for i, r := range remarks {
		lines[i] = fmt.Sprintf("%s %s: %s", r.Type, r.Reason, r.Message)
	}
	section(w, title, strings.Join(lines, "\n"))
}
