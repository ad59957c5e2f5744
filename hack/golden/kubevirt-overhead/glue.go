package main

import (
	"fmt"
	"go/ast"
	"strings"
)

// mainCode is the program. It reads rows and prints answers.
const mainCode = `package main

import (
	"encoding/json"
	"os"

	v1 "kubevirt.io/api/core/v1"

	overheads %q
	defaults %q
	locks %q
)

type answer struct {
	Overhead       int64
	Start, Running string
}

func main() {
	var rows []struct {
		VMI   json.RawMessage
		Arch  string
		Ratio *string
	}
	if err := json.NewDecoder(os.Stdin).Decode(&rows); err != nil {
		panic(err)
	}
	results := []*answer{}
	for _, r := range rows {
		var vmi v1.VirtualMachineInstance
		if err := json.Unmarshal(r.VMI, &vmi); err != nil {
			panic(err)
		}
		defaults.Enter(&vmi)
		if r.Ratio != nil && !overheads.HasRatio {
			results = append(results, nil)
			continue
		}
		a := answer{Overhead: overheads.Of(&vmi, r.Arch, r.Ratio)}
		a.Start, a.Running = locks.Locks(&vmi, r.Arch, r.Ratio)
		results = append(results, &a)
	}
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		panic(err)
	}
}
`

// overheadCode calls GetMemoryOverhead: a function or a method, with or without a parameter for the
// ratio.
func overheadCode(d declaration) string {
	f := d.node.(*ast.FuncDecl)
	call := "GetMemoryOverhead"
	if f.Recv != nil {
		call = "new(" + typeName(f.Recv.List[0].Type) + ")." + call
	}
	ratio := ""
	if parameters(d) > 2 {
		ratio = ", ratio"
	}
	return fmt.Sprintf(`
const HasRatio = %t

func Of(vmi *v1.VirtualMachineInstance, arch string, ratio *string) int64 {
	q := %s(vmi, arch%s)
	return q.Value()
}
`, ratio != "", call, ratio)
}

// parameters returns the number of a function's parameters, where each has a type of its own.
func parameters(d declaration) int { return len(d.node.(*ast.FuncDecl).Type.Params.List) }

// defaultsCode calls the defaults with arguments by the type of their parameters.
func defaultsCode(calls []declaration) string {
	var b strings.Builder
	b.WriteString("\nfunc Enter(vmi *v1.VirtualMachineInstance) {\n")
	for _, d := range calls {
		f := d.node.(*ast.FuncDecl)
		call := f.Name.Name
		if f.Recv != nil {
			call = "new(" + typeName(f.Recv.List[0].Type) + ")." + call
		}
		var arguments []string
		for _, p := range f.Type.Params.List {
			switch typeName(p.Type) {
			case "VirtualMachineInstance":
				arguments = append(arguments, "vmi")
			case "VirtualMachineInstanceSpec":
				arguments = append(arguments, "&vmi.Spec")
			default:
				arguments = append(arguments, "nil") // *ClusterConfig: its methods work on nil
			}
		}
		fmt.Fprintf(&b, "\t%s(%s)\n", call, strings.Join(arguments, ", "))
	}
	b.WriteString("}\n")
	return b.String()
}

// typeName returns the name of the type that t points to, without its package.
func typeName(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return typeName(t.X)
	case *ast.SelectorExpr:
		return t.Sel.Name
	case *ast.Ident:
		return t.Name
	}
	return ""
}
