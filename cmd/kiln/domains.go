package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"
)

// domainsEvery is how often the file of the allowed label domains is read. A mounted
// ConfigMap is behind by a minute anyway, and is changed by swapping a link: the content
// tells more surely than any watch of files.
const domainsEvery = 10 * time.Second

// A domainsFile is the file of the domains whose labels claims may put on their pods.
type domainsFile struct {
	path string
	log  *slog.Logger
	// otherwise are the domains if there is no file, or nothing in it.
	otherwise []string
	// now are the domains that were read last, and wrong is what was wrong with the
	// file since, as it was told.
	now   []string
	wrong string
}

// read reads the file. One that is not there is fine: the ConfigMap it comes from is
// optional.
func (f *domainsFile) read() ([]string, error) {
	text, err := os.ReadFile(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the allowed label domains: %w", err)
	}
	domains := strings.FieldsFunc(string(text), func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	for _, d := range domains {
		if bad := validation.IsDNS1123Subdomain(d); len(bad) > 0 {
			return nil, fmt.Errorf("read the allowed label domains: %s: %q is no domain: %s", f.path, d, strings.Join(bad, "; "))
		}
	}
	if len(domains) == 0 {
		domains = f.otherwise
	}
	f.now = domains
	return domains, nil
}

// look reads the file again, and tells if it says something else than before. What
// cannot be read changes nothing, and that is logged once.
func (f *domainsFile) look(tell func([]string)) {
	was := f.now
	switch _, err := f.read(); {
	case err != nil && err.Error() != f.wrong:
		f.wrong = err.Error()
		f.log.Warn("the allowed label domains stay as they were; mend the file", "err", err, "domains", was)
	case err != nil:
	case !slices.Equal(was, f.now):
		f.wrong = ""
		f.log.Info("other label domains are allowed", "domains", f.now)
		tell(f.now)
	default:
		f.wrong = ""
	}
}

// follow looks until ctx ends.
func (f *domainsFile) follow(ctx context.Context, tell func([]string)) {
	tick := time.NewTicker(domainsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.look(tell)
		}
	}
}
