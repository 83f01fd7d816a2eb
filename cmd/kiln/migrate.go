package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"github.com/kiln-sandbox/kiln/apply"
	agents "github.com/kiln-sandbox/kiln/crds/agents/v1beta1"
	"github.com/kiln-sandbox/kiln/crds/client"
	ext "github.com/kiln-sandbox/kiln/crds/extensions/v1beta1"
	"github.com/kiln-sandbox/kiln/states"
)

const migrateUsage = `kiln migrate takes over, at once and object by object, what the agent-sandbox controller left, under
whatever field manager: the fields that are Kiln's to write become Kiln's, and no field changes. The
controller does the same by itself, when it first needs to, so this command is needed by nobody; it
shows beforehand what will happen.

Flags:
  --dry-run                  say what would be done, and do nothing
  --kubeconfig file          as of kiln controller
  --namespace namespace      one namespace; default all
  --back                     instead of that: give back to the agent-sandbox controller what it would not
                             touch. Its templates become the controllers of their NetworkPolicies, which are
                             deleted with the template from then on, and pool members that Kiln has retired
                             are deleted. Stop Kiln before, for it would undo this
  --prune-stored-versions    instead of that: rewrite every stored object as v1beta1, and take older versions
                             out of the status of the CustomResourceDefinitions, so that those of this
                             version can be installed
`

// A migration is what the command line asks for, and what came of it.
type migration struct {
	dryRun, prune, back bool
	namespace           string
	settings            settings

	out     io.Writer
	conn    *client.Connection
	applier *apply.Applier
	// marks are the templates whose author marked pods as safe to evict, or not, and
	// sandboxes the sandboxes by their UIDs: a pod keeps its mark.
	templates map[string]*ext.SandboxTemplate
	sandboxes map[string]*agents.Sandbox
	// seen, taken and failed count objects by their kinds.
	seen, taken, failed map[string]int
}

// migrate carries out kiln migrate.
func migrate(ctx context.Context, args []string, out io.Writer) error {
	m := &migration{
		out: out, settings: settings{qps: -1},
		templates: map[string]*ext.SandboxTemplate{}, sandboxes: map[string]*agents.Sandbox{},
		seen: map[string]int{}, taken: map[string]int{}, failed: map[string]int{},
	}
	f := flag.NewFlagSet("kiln migrate", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.BoolVar(&m.dryRun, "dry-run", false, "")
	f.BoolVar(&m.back, "back", false, "")
	f.BoolVar(&m.prune, "prune-stored-versions", false, "")
	f.StringVar(&m.namespace, "namespace", "", "")
	f.StringVar(&m.settings.kubeconfig, "kubeconfig", "", "")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, migrateUsage)
		return nil
	} else if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	} else if f.NArg() > 0 {
		return fmt.Errorf("%w: %q is not a flag", errUsage, f.Arg(0))
	} else if m.back && m.prune {
		return fmt.Errorf("%w: --back and --prune-stored-versions are two things: do one after the other", errUsage)
	}
	cfg, err := connect(ctx, &m.settings)
	if err != nil {
		return err
	}
	if m.prune {
		return prune(ctx, cfg, m.dryRun, out)
	}
	return m.run(ctx, cfg)
}

// run looks at every object: templates and sandboxes first, for the pods.
func (m *migration) run(ctx context.Context, cfg *rest.Config) (err error) {
	if m.conn, err = client.Connect(cfg, nil); err != nil {
		return err
	}
	if m.applier, err = apply.New(cfg, apply.Options{Component: component}); err != nil {
		return err
	}
	if m.back {
		return m.giveBack(ctx)
	}
	ns := m.namespace
	for _, list := range []func(context.Context, metav1.ListOptions) (runtime.Object, error){
		lister(m.conn.Kiln.Templates(ns).List), lister(m.conn.Kiln.Pools(ns).List), lister(m.conn.Kiln.Claims(ns).List),
		lister(m.conn.Kiln.Sandboxes(ns).List),
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = apply.LabelNameHash
			return m.conn.Core.CoreV1().Pods(ns).List(ctx, o)
		},
	} {
		err := pager.New(list).EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
			return m.one(ctx, o.(apply.Regarding))
		})
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
	}
	verb := "taken over"
	if m.dryRun {
		verb = "to be taken over"
	}
	return m.summary([]string{"template", "pool", "claim", "sandbox", "pod"}, verb)
}

func lister[L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error)) func(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) }
}

// one takes an object over, or says that it would.
func (m *migration) one(ctx context.Context, o apply.Regarding) error {
	kind, key := apply.KindOf(o), o.GetNamespace()+"/"+o.GetName()
	m.remember(o)
	m.seen[kind]++
	t, inherited, err := apply.TakeoverOf(o, m.marked(o))
	if !inherited {
		return nil
	}
	if err != nil {
		m.fails(kind, key, err)
		return nil
	}
	return m.did(ctx, kind, key, gains(t), func() error {
		_, err := m.applier.TakeOver(ctx, o, m.marked(o))
		return err
	})
}

// remember keeps what pods are judged by.
func (m *migration) remember(o apply.Regarding) {
	switch o := o.(type) {
	case *ext.SandboxTemplate:
		m.templates[o.Namespace+"/"+o.Name] = o
	case *agents.Sandbox:
		m.sandboxes[string(o.UID)] = o
	}
}

// marked reports whether the author of a pod marked it as safe to evict, or not. The
// pod template of a pool member has the pool's mark too.
func (m *migration) marked(o apply.Regarding) bool {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return false
	}
	s, ok := m.sandboxes[apply.OwnerOf(pod).UID]
	if !ok {
		return false
	}
	meta := s.Spec.PodTemplate.ObjectMeta
	if apply.OwnerOf(s).Kind == states.OwnerPool {
		t, ok := m.templates[s.Namespace+"/"+s.Annotations[apply.AnnotationTemplate]]
		if !ok {
			return false
		}
		meta = t.Spec.PodTemplate.ObjectMeta
	}
	_, marked := meta.Annotations[apply.AnnotationSafeToEvict]
	return marked
}

// gains says who gets what.
func gains(t apply.Takeover) string {
	var parts []string
	for _, manager := range slices.Sorted(maps.Keys(t.Fields)) {
		parts = append(parts, fmt.Sprintf("%d fields to %s", t.Fields[manager], manager))
	}
	return strings.Join(parts, ", ") + " from " + strings.Join(t.From, " and ")
}

// summary ends with the counts.
func (m *migration) summary(kinds []string, verb string) error {
	failed := 0
	for _, kind := range kinds {
		fmt.Fprintf(m.out, "%-8s %d, %d %s", kind+":", m.seen[kind], m.taken[kind], verb)
		if n := m.failed[kind]; n > 0 {
			fmt.Fprintf(m.out, ", %d failed", n)
			failed += n
		}
		fmt.Fprintln(m.out)
	}
	if failed > 0 {
		return fmt.Errorf("%d objects were not %s; run it again", failed, verb)
	}
	return nil
}
