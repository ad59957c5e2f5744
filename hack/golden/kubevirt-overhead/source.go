package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// source is a package of KubeVirt.
type source struct {
	name  string
	decls map[string]declaration // methods under their own name
}

// declaration is a top-level declaration of a package.
type declaration struct {
	node    ast.Node
	text    string
	imports map[string]string // path by name, of its file
}

// load reads the Go files of a directory, except tests.
func load(dir string) (*source, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	s := &source{decls: map[string]declaration{}}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := s.add(file, text); err != nil {
			return nil, err
		}
	}
	if len(s.decls) == 0 {
		return nil, fmt.Errorf("%s declares nothing", dir)
	}
	return s, nil
}

// add adds the declarations of a file. Earlier files take precedence.
func (s *source) add(file string, text []byte) error {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	s.name = f.Name.Name
	imports, err := importsOf(f)
	if err != nil {
		return err
	}
	enter := func(name, before string, node ast.Node) {
		if _, ok := s.decls[name]; !ok {
			code := text[set.Position(node.Pos()).Offset:set.Position(node.End()).Offset]
			s.decls[name] = declaration{node, before + string(code), imports}
		}
	}
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			d.Doc = nil
			enter(d.Name.Name, "", d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				for _, name := range namesOf(spec) {
					enter(name, d.Tok.String()+" ", spec)
				}
			}
		}
	}
	return nil
}

// namesOf returns the names in a specification.
func namesOf(spec ast.Spec) []string {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		s.Doc = nil
		return []string{s.Name.Name}
	case *ast.ValueSpec:
		s.Doc = nil
		var names []string
		for _, n := range s.Names {
			names = append(names, n.Name)
		}
		return names
	}
	return nil
}

func importsOf(f *ast.File) (map[string]string, error) {
	imports := map[string]string{}
	for _, i := range f.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(path.Base(p), "go-")
		if i.Name != nil {
			name = i.Name.Name
		}
		imports[name] = p
	}
	return imports, nil
}
