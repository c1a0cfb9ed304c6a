package service

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/upstream"
)

const (
	exportTimeout = 10 * time.Second // for one batch of spans, including retries
	tracingDrain  = 3 * time.Second  // for the last batch, at the end
)

// openTracing starts sending spans in batches from a bounded queue. An unreachable collector loses
// spans, and delays no request.
func (s *Service) openTracing(ctx context.Context) error {
	if s.cfg.Tracing.Endpoint == "" {
		return nil
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	exporter, err := newExporter(ctx, s.cfg.Tracing, transport, s.log)
	if err != nil {
		return err
	}
	about, err := resource.New(ctx, resource.WithFromEnv(), resource.WithAttributes(
		attribute.String("service.name", "tipcache"), attribute.String("service.version", parts.Version())))
	if err != nil { // err may contain a secret
		return errors.New("OTEL_RESOURCE_ATTRIBUTES: expected NAME=VALUE, separated by commas")
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter, sdktrace.WithExportTimeout(exportTimeout)),
		sdktrace.WithResource(about),
		sdktrace.WithSampler(record.Sampler(s.cfg.Tracing.Ratio)),
	)
	s.tracing = provider
	s.onClose(func() error {
		defer transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), tracingDrain)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			s.log.Warn("last trace spans not sent", "error", exporter.hide.Replace(err.Error()))
		}
		return nil // lost spans are no failure of the service
	})
	return nil
}

// exporter sends spans, and logs failures without secrets.
type exporter struct {
	sdktrace.SpanExporter
	log  *slog.Logger
	hide *strings.Replacer // secrets in the URL and headers of the collector
}

func newExporter(ctx context.Context, cfg config.Tracing, transport http.RoundTripper, log *slog.Logger) (*exporter, error) {
	u, err := url.Parse(cfg.Endpoint)
	if err != nil {
		return nil, errors.New("tracing.endpoint: not a URL") // err contains it
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	if u.User != nil {
		password, _ := u.User.Password() // "" if there is only a token
		u.User = url.UserPassword(u.User.Username(), password)
		transport = authorized{transport, u.User.Username(), password}
	}
	e := &exporter{log: log, hide: upstream.NewRedactor(u, headerSecrets(os.Environ())...)}
	logToUs(log, e.hide)
	e.SpanExporter, err = otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.String()),
		otlptracehttp.WithHTTPClient(&http.Client{Transport: transport, Timeout: exportTimeout}))
	return e, err
}

// logToUs makes OpenTelemetry log here instead of on stderr.
func logToUs(log *slog.Logger, hide *strings.Replacer) {
	otel.SetLogger(logr.FromSlogHandler(withoutValues{log.Handler()}))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("OpenTelemetry reported an error", "error", hide.Replace(err.Error()))
	}))
}

// withoutValues logs the errors of OpenTelemetry without their attributes: these repeat malformed environment variables,
// which may hold secrets.
type withoutValues struct{ slog.Handler }

func (h withoutValues) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelError && h.Handler.Enabled(ctx, level)
}

func (h withoutValues) Handle(ctx context.Context, r slog.Record) error {
	line := slog.NewRecord(r.Time, slog.LevelWarn, "OpenTelemetry ignored a malformed OTEL_ variable", 0)
	line.AddAttrs(slog.String("problem", r.Message))
	return h.Handler.Handle(ctx, line)
}

// authorized adds credentials to requests. WithHeaders of the exporter would drop the headers that
// OTEL_EXPORTER_OTLP_HEADERS names.
type authorized struct {
	http.RoundTripper
	user, password string
}

func (a authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.SetBasicAuth(a.user, a.password)
	return a.RoundTripper.RoundTrip(r)
}

// ExportSpans logs failures and returns nil.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.log.Warn("trace spans not sent", "spans", len(spans), "error", e.hide.Replace(err.Error()))
	}
	return nil
}

// minSecret is the length from which the value of a header may be a secret.
const minSecret = 6

// headerSecrets returns the values of the headers in the environment variables of OpenTelemetry.
func headerSecrets(environ []string) (secrets []string) {
	for _, variable := range environ {
		name, list, _ := strings.Cut(variable, "=")
		if name != "OTEL_EXPORTER_OTLP_HEADERS" && name != "OTEL_EXPORTER_OTLP_TRACES_HEADERS" {
			continue
		}
		for header := range strings.SplitSeq(list, ",") {
			_, value, _ := strings.Cut(header, "=")
			sent, _ := url.PathUnescape(strings.TrimSpace(value))
			_, token, _ := strings.Cut(sent, " ") // such as after Bearer
			for _, secret := range []string{sent, token} {
				if len(secret) >= minSecret {
					secrets = append(secrets, secret)
				}
			}
		}
	}
	return secrets
}
