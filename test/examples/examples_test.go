package examples

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/kiln-sandbox/kiln/test/cluster"
)

// A command is a line of a header, and what it is said to print.
type command struct{ line, prints string }

// printed is the comment behind a command.
var printed = regexp.MustCompile(`^(.*\S)\s+# (.+)$`)

// commands are what the header of a file tells to type: its lines that are indented
// and begin with kubectl.
func commands(file []byte) (all []command) {
	for line := range strings.Lines(string(file)) {
		text, comment := strings.CutPrefix(strings.TrimRight(line, "\n"), "#")
		if !comment {
			return all
		}
		text, indented := strings.CutPrefix(text, "   ")
		if !indented || !strings.HasPrefix(text, "kubectl ") {
			continue
		}
		c := command{line: text}
		if m := printed.FindStringSubmatch(text); m != nil {
			c = command{m[1], m[2]}
		}
		all = append(all, c)
	}
	return all
}

func TestEveryExampleDoesWhatItsHeaderSays(t *testing.T) {
	root, err := cluster.Root()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	files, err := filepath.Glob(filepath.Join(root, "examples", "*.yaml"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(files).NotTo(BeEmpty())
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			g := NewWithT(t)
			text, err := os.ReadFile(file)
			g.Expect(err).NotTo(HaveOccurred())
			all := commands(text)
			g.Expect(all).NotTo(BeEmpty(), "the header says what to type")
			g.Expect(all).To(ContainElement(command{line: "kubectl apply -f examples/" + filepath.Base(file)}))
			for _, c := range all {
				if applied, is := strings.CutPrefix(c.line, "kubectl apply "); is {
					t.Cleanup(func() { _, _ = shell(root, "kubectl delete --wait=false "+applied) })
				}
				out, err := shell(root, c.line)
				if err != nil {
					t.Fatalf("%s\n%v", c.line, err)
				}
				expect(g, c, out)
			}
		})
	}
}

// expect compares what a command has printed with what its comment says. Words in
// parentheses stand for something that is not the same each time.
func expect(g Gomega, c command, out string) {
	switch {
	case c.prints == "":
	case c.prints == "(empty)":
		g.Expect(out).To(BeEmpty(), c.line)
	case strings.HasPrefix(c.prints, "("):
		g.Expect(out).NotTo(BeEmpty(), c.line)
	default:
		g.Expect(out).To(Equal(c.prints), c.line)
	}
}

// shell runs a line as a reader would, and returns what it printed.
func shell(root, line string) (string, error) {
	command := exec.CommandContext(world.ctx, "sh", "-c", line)
	command.Dir = root
	command.Env = append(os.Environ(), "KUBECONFIG="+world.cluster.KubeconfigPath,
		"HOME="+filepath.Join(world.cluster.Dir, "home"), "PATH="+filepath.Dir(world.cluster.Kubectl)+":"+os.Getenv("PATH"))
	var out, said bytes.Buffer
	command.Stdout, command.Stderr = &out, &said
	err := command.Run()
	if err != nil {
		return "", fmt.Errorf("%w: %s%s", err, out.String(), said.String())
	}
	return strings.TrimSpace(out.String()), nil
}
