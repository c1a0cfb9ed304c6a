package service

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/config"
)

const (
	exportTimeout = 10 * time.Second // for one batch of spans, tries and pauses together
	tracingDrain  = 3 * time.Second  // for what is left of them at the end
)

// openTracing starts what collects spans and sends them, in batches, from a
// queue of a bounded length: a collector that is away costs spans, not requests.
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
			s.log.Warn("the last spans were not sent", "error", exporter.clean(err))
		}
		return nil // the requests were answered all the same
	})
	return nil
}

// exporter sends spans, and writes failures to the log instead of standard
// error, without what in the collector's URL may be a key.
type exporter struct {
	sdktrace.SpanExporter
	log    *slog.Logger
	secret string // the path of the URL, "" if it is a usual one
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
	e := &exporter{log: log}
	if u.Path != usualPath {
		e.secret = u.EscapedPath()
	}
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
		e.log.Warn("spans were not sent", "spans", len(spans), "error", e.clean(err))
	}
	return nil
}

// clean is the text of an error without the URL's path.
func (e *exporter) clean(err error) string {
	if e.secret == "" {
		return err.Error()
	}
	return strings.ReplaceAll(err.Error(), e.secret, "/***")
}
