package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// module is KubeVirt's module. Its packages are extracted. Packages of other modules are imported.
const module = "kubevirt.io/kubevirt"

// extraction collects functions of KubeVirt and everything they use.
type extraction struct {
	tree     string // KubeVirt's source
	sources  map[string]*source
	packages map[string]*excerpt // by folder
}

// excerpt is a package with some of its declarations.
type excerpt struct {
	name    string
	imports map[string]string
	decls   map[string]string
}

func newExtraction(tree string) *extraction {
	return &extraction{tree: tree, sources: map[string]*source{}, packages: map[string]*excerpt{}}
}

// source returns the package in a directory. Stand-ins replace its declarations.
func (e *extraction) source(folder string) (*source, error) {
	if s, ok := e.sources[folder]; ok {
		return s, nil
	}
	var s *source
	var err error
	if standIn, ok := standIns[folder]; ok && standIn.whole {
		s = &source{decls: map[string]declaration{}}
	} else if s, err = load(filepath.Join(e.tree, folder)); err != nil {
		return nil, err
	}
	if standIn, ok := standIns[folder]; ok {
		replacement := &source{decls: map[string]declaration{}}
		if err := replacement.add(folder, []byte(standIn.code)); err != nil {
			return nil, err
		}
		s.name = replacement.name
		maps.Copy(s.decls, replacement.decls)
	}
	e.sources[folder] = s
	return s, nil
}

// need extracts a declaration and everything that it uses.
func (e *extraction) need(folder, name string) error {
	s, err := e.source(folder)
	if err != nil {
		return err
	}
	p := e.packages[folder]
	if p == nil {
		p = &excerpt{s.name, map[string]string{}, map[string]string{}}
		e.packages[folder] = p
		if err := e.needStandIns(folder); err != nil {
			return err
		}
	}
	d, ok := s.decls[name]
	if !ok {
		return fmt.Errorf("%s does not declare %s", folder, name)
	}
	if _, ok := p.decls[name]; ok {
		return nil
	}
	p.decls[name] = d.text
	return e.needUsed(folder, p, s, d)
}

// needStandIns extracts all replacements in a package. Methods among them have no other users that
// needUsed finds.
func (e *extraction) needStandIns(folder string) error {
	standIn, ok := standIns[folder]
	if !ok || standIn.whole {
		return nil
	}
	replacement := &source{decls: map[string]declaration{}}
	if err := replacement.add(folder, []byte(standIn.code)); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(replacement.decls)) {
		if err := e.need(folder, name); err != nil {
			return err
		}
	}
	return nil
}

// needUsed extracts every declaration used by d.
func (e *extraction) needUsed(folder string, p *excerpt, s *source, d declaration) error {
	var failed error
	note := func(err error) {
		if failed == nil {
			failed = err
		}
	}
	own := localsOf(d.node)
	var visit func(ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && d.imports[x.Name] != "" && !own[x.Name] {
				note(e.needImported(p, x.Name, d.imports[x.Name], n.Sel.Name))
				return false
			}
			ast.Inspect(n.X, visit)
			return false
		case *ast.Ident:
			if _, ok := s.decls[n.Name]; ok && !own[n.Name] {
				note(e.need(folder, n.Name))
			}
		}
		return true
	}
	ast.Inspect(d.node, visit)
	return failed
}

// localsOf returns the names of a function's parameters and variables. If such a name also stood
// for a declaration of the package, the compiler would report it.
func localsOf(node ast.Node) map[string]bool {
	names := map[string]bool{}
	f, ok := node.(*ast.FuncDecl)
	if !ok {
		return names
	}
	enter := func(idents ...*ast.Ident) {
		for _, i := range idents {
			names[i.Name] = true
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			enter(n.Names...)
		case *ast.ValueSpec:
			enter(n.Names...)
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if i, ok := left.(*ast.Ident); ok && n.Tok == token.DEFINE {
					enter(i)
				}
			}
		}
		return true
	})
	return names
}

// needImported extracts a declaration of another package.
func (e *extraction) needImported(p *excerpt, name, path, what string) error {
	folder, own := strings.CutPrefix(path, module+"/")
	if to, ok := replacedImports[path]; ok {
		folder, own = to, true
		path = module + "/" + folder
	}
	p.imports[name] = path
	if !own {
		return nil
	}
	if standIn, ok := standIns[folder]; ok && standIn.whole {
		return e.needAll(folder)
	}
	return e.need(folder, what)
}

// needAll extracts a whole package.
func (e *extraction) needAll(folder string) error {
	s, err := e.source(folder)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.decls)) {
		if err := e.need(folder, name); err != nil {
			return err
		}
	}
	return nil
}

// file returns the Go file of an excerpt with more code at its end.
func (p *excerpt) file(more string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "package %s\n\n", p.name)
	for _, name := range slices.Sorted(maps.Keys(p.imports)) {
		fmt.Fprintf(&b, "import %s %q\n", name, p.imports[name])
	}
	written := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(p.decls)) {
		if text := p.decls[name]; !written[text] {
			fmt.Fprintf(&b, "\n%s\n", text)
			written[text] = true
		}
	}
	b.WriteString(more)
	return b.Bytes()
}
