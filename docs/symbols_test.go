package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// codeName is a name in a page: a folder or file of the repository, or a package with a symbol.
var codeName = regexp.MustCompile("`([a-z][a-z0-9/_-]*)(?:\\.([A-Za-z]\\w*)(?:\\.(\\w+))?)?`")

// TestSymbols checks that each folder, file and package symbol in these pages exists.
func TestSymbols(t *testing.T) {
	packages := map[string]map[string]bool{}
	for _, page := range []string{"docs/explanation/design.md", "docs/explanation/agent.md"} {
		text, err := os.ReadFile(filepath.Join("..", page))
		if err != nil {
			t.Fatal(err)
		}
		checked := 0
		for _, name := range codeName.FindAllStringSubmatch(string(text), -1) {
			path := filepath.Join("..", name[1])
			if top, _, nested := strings.Cut(name[1], "/"); nested &&
				exists(filepath.Join("..", top)) {
				if !exists(path) && !isFile(path, name[2], name[3]) {
					t.Errorf("%s names %s, which does not exist", page, name[0])
					continue
				}
			}
			if info, err := os.Stat(path); err != nil || !info.IsDir() || name[2] == "" ||
				!hasGo(path) {
				continue
			}
			if packages[path] == nil {
				packages[path] = symbols(t, path)
			}
			symbol := strings.TrimSuffix(name[2]+"."+name[3], ".")
			if !packages[path][symbol] {
				t.Errorf("%s names %s, and package %s has no %s", page, name[0], name[1], symbol)
			}
			checked++
		}
		if page == "docs/explanation/design.md" && checked < 40 {
			t.Errorf("%s names %d symbols, want at least 40", page, checked)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// isFile reports whether the parts of a name are a file with its extensions.
func isFile(path, ext, second string) bool {
	return exists(strings.TrimSuffix(path+"."+ext+"."+second, "."))
}

func hasGo(dir string) bool {
	files, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	return len(files) > 0
}

// symbols returns the names declared by a package: functions, types, values, and Type.Member for
// methods, fields and methods of interfaces.
func symbols(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			addDeclared(all, declaration)
		}
	}
	return all
}

func addDeclared(all map[string]bool, declaration ast.Decl) {
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = receiver(d.Recv.List[0].Type) + "." + name
		}
		all[name] = true
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				all[s.Name.Name] = true
				addMembers(all, s)
			case *ast.ValueSpec:
				for _, name := range s.Names {
					all[name.Name] = true
				}
			}
		}
	}
}

func addMembers(all map[string]bool, spec *ast.TypeSpec) {
	var members *ast.FieldList
	switch of := spec.Type.(type) {
	case *ast.StructType:
		members = of.Fields
	case *ast.InterfaceType:
		members = of.Methods
	default:
		return
	}
	for _, member := range members.List {
		for _, name := range member.Names {
			all[spec.Name.Name+"."+name.Name] = true
		}
	}
}

func receiver(of ast.Expr) string {
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}
