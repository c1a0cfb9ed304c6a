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

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream"
)

const (
	exportTimeout = 10 * time.Second // for one batch of spans, tries and pauses together
	tracingDrain  = 3 * time.Second  // for what is left of them at the end
)

// openTracing starts what collects spans and sends them, in batches, from a
// queue of a bounded length: a collector that is away costs spans, not requests.
func (s *Service) openTracing(ctx context.Context) error {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	exporter, err := newExporter(ctx, s.cfg.Tracing, transport, s.log)
	if err != nil {
		return err
	}
	about, err := resource.New(ctx, resource.WithFromEnv(), resource.WithAttributes(
		attribute.String("service.name", "tipcache"), attribute.String("service.version", parts.Version())))
	if err != nil {
		return err
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter, sdktrace.WithExportTimeout(exportTimeout)),
		sdktrace.WithResource(about),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(s.cfg.Tracing.Ratio))),
	)
	s.tracing = provider
	s.onClose(func() error {
		defer transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), tracingDrain)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			s.log.Warn("last trace spans not sent", "error", exporter.hide.Replace(err.Error()))
		}
		return nil // the requests were answered all the same
	})
	return nil
}

// exporter sends spans, and writes failures to the log instead of standard
// error, without what in the collector's URL may be a key.
type exporter struct {
	sdktrace.SpanExporter
	log  *slog.Logger
	hide *strings.Replacer // what in the collector's URL and headers may be a key
}

const usualPath = "/v1/traces"

func newExporter(ctx context.Context, cfg config.Tracing, transport http.RoundTripper, log *slog.Logger) (*exporter, error) {
	u, err := url.Parse(cfg.Endpoint)
	if err != nil {
		return nil, errors.New("tracing.endpoint: not a URL") // err repeats it
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = usualPath
	}
	e := &exporter{log: log, hide: upstream.NewRedactor(u, headerSecrets(os.Environ())...)}
	o := []otlptracehttp.Option{
		otlptracehttp.WithEndpointURL(u.String()),
		otlptracehttp.WithHTTPClient(&http.Client{Transport: transport, Timeout: exportTimeout}),
	}
	if password, ok := u.User.Password(); ok {
		basic := &http.Request{Header: http.Header{}}
		basic.SetBasicAuth(u.User.Username(), password)
		o = append(o, otlptracehttp.WithHeaders(map[string]string{"Authorization": basic.Header.Get("Authorization")}))
	}
	e.SpanExporter, err = otlptracehttp.New(ctx, o...)
	return e, err
}

// ExportSpans never fails: the failure has been logged.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.log.Warn("trace spans not sent", "spans", len(spans), "error", e.hide.Replace(err.Error()))
	}
	return nil
}

// minHeader is the length from which a header's value may be a secret.
const minHeader = 6

// headerSecrets are the values of the headers for the collector, which variables of
// OpenTelemetry's own name.
func headerSecrets(environ []string) (secrets []string) {
	for _, variable := range environ {
		name, list, _ := strings.Cut(variable, "=")
		if name != "OTEL_EXPORTER_OTLP_HEADERS" && name != "OTEL_EXPORTER_OTLP_TRACES_HEADERS" {
			continue
		}
		for header := range strings.SplitSeq(list, ",") {
			_, value, _ := strings.Cut(header, "=")
			sent, _ := url.PathUnescape(strings.TrimSpace(value))
			_, token, _ := strings.Cut(sent, " ") // after Bearer, say
			for _, secret := range []string{sent, token} {
				if len(secret) >= minHeader {
					secrets = append(secrets, secret)
				}
			}
		}
	}
	return secrets
}
