package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/tipcache/tipcache/config"
)

// flags is a command's flag set with the help that teaches it.
type flags struct {
	*flag.FlagSet
	about string
	out   io.Writer
}

func newFlags(name, about string, std streams) flags {
	fs := flag.NewFlagSet("tipcache "+name, flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are reported once, by main
	return flags{fs, about, std.out}
}

// parse reads args, which must all be flags but for at most operands at the end.
func (f flags) parse(args []string, operands int) error {
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		f.help()
	}
	if err == nil && f.NArg() > operands {
		return fmt.Errorf("unexpected argument %q", f.Arg(operands))
	}
	return err
}

func (f flags) help() {
	fmt.Fprintf(f.out, "%s: %s\n\nFlags:\n", f.Name(), f.about)
	f.SetOutput(f.out)
	f.PrintDefaults()
}

// settingFlags are the flags that set configuration keys.
type settingFlags struct {
	file   string
	values map[string][]string
}

// parseSettings reads the configuration of a command that takes nothing but
// settings. What was on the command line stays at hand for loading it again.
func parseSettings(name, about string, args []string, std streams) (*settingFlags, config.Config, error) {
	fs := newFlags(name, about, std)
	settings := addSettingFlags(fs)
	if err := fs.parse(args, 0); err != nil {
		return nil, config.Config{}, err
	}
	cfg, err := settings.load()
	return settings, cfg, err
}

// addSettingFlags adds the flags of all settings.
func addSettingFlags(fs flags) *settingFlags {
	return addFlagsOf(fs, func(config.Key) bool { return true })
}

// addFlagsOf adds the flags of those settings that a command needs.
func addFlagsOf(fs flags, needed func(config.Key) bool) *settingFlags {
	s := &settingFlags{values: map[string][]string{}}
	fs.StringVar(&s.file, "config", "", "YAML `file` with settings")
	for _, k := range config.Keys() {
		if k.Flag == "" || !needed(k) {
			continue
		}
		add := fs.Func
		if _, yesOrNo := k.Default.(bool); yesOrNo {
			add = fs.BoolFunc
		}
		add(k.Flag, flagUsage(k), func(v string) error {
			s.values[k.Flag] = append(s.values[k.Flag], v)
			return nil
		})
	}
	return s
}

func flagUsage(k config.Key) string {
	repeat := ""
	if k.List {
		repeat = "; may be repeated"
	}
	return fmt.Sprintf("%s%s\n(%s, %s; default %s)", k.Doc, repeat, k.Path, k.Env, cmp.Or(k.DefaultText(), "empty"))
}

// load reads flags, environment and file into a valid configuration.
func (s *settingFlags) load() (config.Config, error) {
	cfg, err := config.Load(config.Sources{File: s.file, Environ: os.Environ(), Flags: s.values, Check: validateRoutes})
	if err != nil {
		return cfg, fmt.Errorf("the configuration has problems:\n%w", err)
	}
	return cfg, nil
}
