package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"
)

// logging is the log that a command line asks for, and what is written to it.
func logging(t *testing.T, line string) (*slog.Logger, *bytes.Buffer) {
	t.Helper()
	s, err := parse(strings.Fields(line))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	var out bytes.Buffer
	log, err := newLog(s, &out)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(klog.ClearLogger)
	return log, &out
}

func TestTheLogIsJSONOrForAPersonToRead(t *testing.T) {
	for line, isJSON := range map[string]bool{"": true, "--zap-encoder=json": true, "--zap-encoder=console": false, "--zap-devel": false, "--zap-devel --zap-encoder=json": false} {
		t.Run(line, func(t *testing.T) {
			g := NewWithT(t)
			log, out := logging(t, line)
			log.Info("transition", "kind", "claim", "key", "a/x")
			g.Expect(strings.Count(out.String(), "\n")).To(Equal(1), "a line each")
			if !isJSON {
				g.Expect(out.String()).To(MatchRegexp(`^time=\S+ level=INFO msg=transition kind=claim key=a/x\n$`))
				return
			}
			var said map[string]string
			g.Expect(json.Unmarshal(out.Bytes(), &said)).To(Succeed())
			g.Expect(said).To(HaveKeyWithValue("time", MatchRegexp(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d`)))
			delete(said, "time")
			g.Expect(said).To(Equal(map[string]string{"level": "INFO", "msg": "transition", "kind": "claim", "key": "a/x"}))
		})
	}
}

func TestTheLogSaysNothingBelowItsLevel(t *testing.T) {
	for line, said := range map[string]string{
		"":                                 "info warn error",
		"--zap-log-level=debug":            "debug info warn error",
		"--zap-log-level=3":                "debug info warn error",
		"--zap-log-level=INFO":             "info warn error",
		"--zap-log-level=warn":             "warn error",
		"--zap-log-level=error":            "error",
		"--zap-log-level=panic":            "error",
		"--zap-devel":                      "debug info warn error",
		"--zap-devel --zap-log-level=warn": "debug info warn error",
	} {
		t.Run(line, func(t *testing.T) {
			log, out := logging(t, line+" --zap-encoder=console")
			log.Debug("debug")
			log.Info("info")
			log.Warn("warn")
			log.Error("error")
			NewWithT(t).Expect(messages(out)).To(Equal(said))
		})
	}
}

// client-go says at info what is debug to whoever runs a controller.
func TestWhatClientGoSaysIsInTheSameLog(t *testing.T) {
	for line, said := range map[string]string{"": "error", "--zap-log-level=error": "error", "--zap-log-level=debug": "info warn error"} {
		t.Run(line, func(t *testing.T) {
			_, out := logging(t, line+" --zap-encoder=console")
			klog.Info("info")
			klog.Warning("warn")
			klog.ErrorS(errors.New("away"), "error")
			NewWithT(t).Expect(messages(out)).To(Equal(said))
			NewWithT(t).Expect(out.String()).To(ContainSubstring("level=ERROR msg=error err=away"))
		})
	}
}

// messages are what the lines of a console log say.
func messages(out *bytes.Buffer) string {
	var all []string
	for line := range strings.Lines(out.String()) {
		_, rest, _ := strings.Cut(line, " msg=")
		said, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		all = append(all, said)
	}
	return strings.Join(all, " ")
}
