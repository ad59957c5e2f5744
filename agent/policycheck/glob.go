package policycheck

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// alphabet is what names of namespaces and service accounts are made of.
const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789-."

// maxStates bounds the search for a name that tells globs apart: beyond that
// nothing is said of them.
const maxStates = 300

// globList is a list of globs as in [path.Match], of which one has to match.
type globList = []string

// covers reports whether every name that glob matches is matched by one of the
// lists as well. It walks both as automata over the letters of names. Where that
// takes too long the answer is false.
func covers(by []globList, glob string) bool {
	all := slices.Concat(by...)
	one, many, letters := newAutomaton(glob), newAutomaton(all...), lettersOf(append(all, glob))
	type pair struct{ one, many states }
	pending := []pair{{one.start(), many.start()}}
	seen := map[string]bool{}
	for len(pending) > 0 && len(seen) < maxStates {
		p := pending[0]
		pending = pending[1:]
		if one.accepts(p.one) && !many.accepts(p.many) {
			return false
		}
		for _, c := range letters {
			ahead := one.step(p.one, c)
			if len(ahead) == 0 {
				continue
			}
			next := pair{ahead, many.step(p.many, c)}
			if key := next.one.key() + "|" + next.many.key(); !seen[key] {
				seen[key] = true
				pending = append(pending, next)
			}
		}
	}
	return len(pending) == 0
}

// lettersOf returns the letters that globs tell apart: those in them, and one for all
// others. Classes such as [a-f] tell any apart.
func lettersOf(globs []string) (letters []string) {
	text, other := strings.Join(globs, ""), ""
	for _, c := range strings.Split(alphabet, "") {
		if strings.Contains(text, c) || strings.Contains(text, "[") {
			letters = append(letters, c)
		} else {
			other = c
		}
	}
	if other != "" {
		letters = append(letters, other)
	}
	return letters
}

// automaton matches several globs at once. A token is "*", or a glob of its own
// for one letter.
type automaton [][]string

func newAutomaton(globs ...string) automaton {
	a := make(automaton, len(globs))
	for i, g := range globs {
		a[i] = tokens(g)
	}
	return a
}

// tokens takes a glob apart that [path.Match] accepts. Policies have no
// backslashes in them.
func tokens(glob string) (all []string) {
	for glob != "" {
		n := 1
		if glob[0] == '[' {
			n = strings.IndexByte(glob, ']') + 1
		}
		all = append(all, glob[:n])
		glob = glob[n:]
	}
	return all
}

// state is how far into one of the globs a name has come.
type state struct{ glob, at int }

type states map[state]bool

func (s states) key() string {
	sorted := slices.SortedFunc(maps.Keys(s), func(a, b state) int {
		return cmp.Or(cmp.Compare(a.glob, b.glob), cmp.Compare(a.at, b.at))
	})
	return fmt.Sprint(sorted)
}

func (a automaton) start() states {
	s := states{}
	for i := range a {
		a.enter(s, state{i, 0})
	}
	return s
}

// enter adds a state, and those behind stars, which may match nothing.
func (a automaton) enter(s states, p state) {
	s[p] = true
	if p.at < len(a[p.glob]) && a[p.glob][p.at] == "*" {
		a.enter(s, state{p.glob, p.at + 1})
	}
}

func (a automaton) step(s states, letter string) states {
	next := states{}
	for p := range s {
		if p.at == len(a[p.glob]) {
			continue
		}
		token := a[p.glob][p.at]
		if ok, _ := path.Match(token, letter); !ok {
			continue
		}
		if token != "*" {
			p.at++
		}
		a.enter(next, p)
	}
	return next
}

func (a automaton) accepts(s states) bool {
	for p := range s {
		if p.at == len(a[p.glob]) {
			return true
		}
	}
	return false
}
