-- The tables that ClickHouse's exporter of the Collector fills, with the columns that the guide's statements use, from the
-- files of the tests' Collector: {folder} is where those are. The names and types are the exporter's.
CREATE FUNCTION attributes AS list -> mapFromArrays(
    tupleElement(list, 'key'), arrayMap(value -> mapValues(value)[1], tupleElement(list, 'value')));

CREATE TABLE received ENGINE = Memory AS
SELECT attributes(tupleElement(tupleElement(resource, 'resource'), 'attributes')) AS ResourceAttributes, metric
FROM file('{folder}/metrics', 'LineAsString', 'line String')
ARRAY JOIN JSONExtract(line, 'resourceMetrics', 'Array(Tuple(
    resource Tuple(attributes Array(Tuple(key String, value Map(String, String)))),
    scopeMetrics Array(Tuple(metrics Array(Tuple(
        name String,
        unit String,
        sum Tuple(aggregationTemporality Int32, isMonotonic Bool, dataPoints Array(Tuple(
            attributes Array(Tuple(key String, value Map(String, String))),
            startTimeUnixNano UInt64, timeUnixNano UInt64, asInt Int64, asDouble Float64))),
        exponentialHistogram Tuple(aggregationTemporality Int32, dataPoints Array(Tuple(
            attributes Array(Tuple(key String, value Map(String, String))),
            startTimeUnixNano UInt64, timeUnixNano UInt64, count UInt64, sum Float64, scale Int32, zeroCount UInt64,
            positive Tuple(offset Int32, bucketCounts Array(UInt64)))))))))))') AS resource
ARRAY JOIN resource.scopeMetrics AS scope
ARRAY JOIN scope.metrics AS metric;

CREATE TABLE otel_metrics_sum ENGINE = Memory AS
SELECT ResourceAttributes, metric.name AS MetricName, metric.unit AS MetricUnit, attributes(point.attributes) AS Attributes,
       fromUnixTimestamp64Nano(toInt64(point.startTimeUnixNano)) AS StartTimeUnix,
       fromUnixTimestamp64Nano(toInt64(point.timeUnixNano)) AS TimeUnix,
       point.asInt + point.asDouble AS Value
FROM received ARRAY JOIN metric.sum.dataPoints AS point;

CREATE TABLE otel_metrics_exp_histogram ENGINE = Memory AS
SELECT ResourceAttributes, metric.name AS MetricName, metric.unit AS MetricUnit, attributes(point.attributes) AS Attributes,
       fromUnixTimestamp64Nano(toInt64(point.startTimeUnixNano)) AS StartTimeUnix,
       fromUnixTimestamp64Nano(toInt64(point.timeUnixNano)) AS TimeUnix,
       point.count AS Count, point.sum AS Sum, point.scale AS Scale, point.zeroCount AS ZeroCount,
       point.positive.offset AS PositiveOffset, point.positive.bucketCounts AS PositiveBucketCounts
FROM received ARRAY JOIN metric.exponentialHistogram.dataPoints AS point;
