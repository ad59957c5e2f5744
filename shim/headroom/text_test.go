package headroom_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/shim/headroom"
)

var fourVCPUs = headroom.Options{Memory: 1, CPUs: 4}

// A number changes in place, whatever surrounds it in its element.
func TestNumberSyntax(t *testing.T) {
	for _, c := range [][2]string{
		{"<vcpu>2</vcpu>", "<vcpu current='2'>4</vcpu>"},
		{
			"<vcpu><!-- of 2 --> 2 <!-- 2 --></vcpu>",
			"<vcpu current='2'><!-- of 2 --> 4 <!-- 2 --></vcpu>",
		},
		{"<vcpu><![CDATA[2]]></vcpu>", "<vcpu current='2'>4</vcpu>"},
		{"<vcpu>&#50;</vcpu>", "<vcpu current='2'>4</vcpu>"},
		{"<vcpu>0<!-- and -->2</vcpu>", "<vcpu current='2'>4</vcpu>"},
		{"<vcpu>\n\t2\r\n  </vcpu\n>", "<vcpu current='2'>\n\t4\r\n  </vcpu\n>"},
		{
			"<vcpu\n  placement = \"static\"\n>2</vcpu>",
			"<vcpu\n  placement = \"static\" current='2'\n>4</vcpu>",
		},
		{
			`<vcpu current = "2" placement='static'>2</vcpu>`,
			`<vcpu current = "2" placement='static'>4</vcpu>`,
		},
		{`<vcpu a=" current='9'">2</vcpu>`, `<vcpu a=" current='9'" current='2'>4</vcpu>`},
		{`<vcpu a='/>'>2</vcpu>`, `<vcpu a='/>' current='2'>4</vcpu>`},
	} {
		got := string(prepare(t, guest(c[0], "", ""), fourVCPUs).XML)
		if diff := cmp.Diff(guest(c[1], "", ""), got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

func TestRestIsUnchanged(t *testing.T) {
	const before, after = "<vcpu>2</vcpu>", "<vcpu current='2'>4</vcpu>"
	for _, around := range []string{
		"<?xml version='1.0' encoding='US-ASCII'?>\n<!-- <vcpu>9</vcpu> -->\n%\n<!-- end -->\n",
		"%<other:vcpu xmlns:other='http://example.org'>1</other:vcpu>",
		"<new a='&lt;&#10;' b=\"'\"><vcpu>7</vcpu><![CDATA[<vcpu>]]>&amp;\u00e9</new  >%",
		"<metadata>\r\n\t<vcpu xmlns='http://example.org'>1</vcpu>\r\n</metadata>%",
		"<description>2 &gt; 1 &#x41; \"quoted\" 'quoted'</description " +
			">%<empty></empty><empty/><empty />",
	} {
		text := strings.Replace(
			guest("", "", ""), "<name>", strings.Replace(around, "%", before, 1)+"<name>", 1,
		)
		if strings.HasPrefix(around, "<?xml") {
			text = strings.Replace(around, "%", guest(before, "", ""), 1)
		}
		got := string(prepare(t, text, fourVCPUs).XML)
		if diff := cmp.Diff(strings.Replace(text, before, after, 1), got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

// New elements follow the formatting around them.
func TestIndentation(t *testing.T) {
	memory := headroom.Options{Memory: 4096, CPUs: 1}
	text := guest(twoVCPUs, "<cpu/>", "")
	for name, c := range map[string]struct{ before, after, want string }{
		"self-closed": {"<cpu/>", "<cpu />", "<cpu>\n    " + numa("0-1") + "\n  </cpu>\n"},
		"empty": {
			"<cpu/>",
			"<cpu></cpu>",
			"<cpu>\n    " + numa("0-1") + "\n  </cpu>\n",
		},
		"empty over lines": {
			"<cpu/>",
			"<cpu>\n  </cpu>",
			"<cpu>\n    " + numa("0-1") + "\n  </cpu>\n",
		},
		"a comment": {
			"<cpu/>",
			"<cpu>\n    <!-- fast -->\n  </cpu>",
			"<cpu>\n    <!-- fast -->\n    " + numa("0-1") + "\n  </cpu>\n",
		},
		"beside an element": {
			"<cpu/>",
			"<cpu>\n    <model/>\n  </cpu>",
			"<model/>\n    " + numa("0-1") + "\n  </cpu>\n",
		},
		"on one line": {
			"<cpu/>",
			"<cpu><model/></cpu>",
			"<cpu><model/>" + withoutSpace(numa("0-1")) + "</cpu>\n",
		},
		"numa without a cell": {
			"<cpu/>",
			"<cpu><numa/></cpu>",
			"<cpu>" + withoutSpace(numa("0-1")) + "</cpu>\n",
		},
		"no devices": {
			"  <devices>\n    \n    <memballoon model='none'/>\n  </devices>\n",
			"",
			"\n  <devices>\n    " + virtioMem + "\n  </devices>\n",
		},
		"Windows": {
			"\n",
			"\r\n",
			"<cpu>\r\n    " + strings.ReplaceAll(numa("0-1"), "\n", "\r\n") + "\r\n  </cpu>\r\n",
		},
		"tabs": {
			"  ",
			"\t",
			"<cpu>\n\t\t" + strings.ReplaceAll(numa("0-1"), "  ", "\t") + "\n\t</cpu>\n",
		},
	} {
		n := 1
		if name == "Windows" || name == "tabs" {
			n = -1
		}
		got := string(prepare(t, strings.Replace(text, c.before, c.after, n), memory).XML)
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: want %q in\n%q", name, c.want, got)
		}
	}
}
