"""Instant queries to a Prometheus, bounded in time: prometheus-api-client with its waits set.

Left alone, that library waits for ever, and retries a hung server three times. Here one query
takes `QUERY_TIMEOUT_S` at most, plus one more try where the connection was refused.
"""

import math
from dataclasses import dataclass
from typing import Any, Final

import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.util.retry import Retry

QUERY_TIMEOUT_S: Final = 3.0
RETRY: Final = Retry(total=1, connect=1, read=0, status=0, backoff_factor=0.1)


class PrometheusUnreachableError(RuntimeError):
    """No answer, or not one of a Prometheus."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series of an instant vector; `value` is finite."""

    labels: dict[str, str]
    value: float


class PrometheusClient:
    """Asks one Prometheus."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connect = PrometheusConnect(url=url, retry=RETRY, timeout=QUERY_TIMEOUT_S)

    def query(self, promql: str, at_s: float) -> list[Series]:
        """Evaluate at a time. An unknown metric gives no series, as does one that is NaN.

        Raises PrometheusUnreachableError.
        """
        try:
            answer: list[dict[str, Any]] = self._connect.custom_query(
                promql, params={"time": f"{at_s:.3f}"}
            )
            series = [Series(row["metric"], float(row["value"][1])) for row in answer]
        except (requests.RequestException, PrometheusApiClientException) as error:
            raise PrometheusUnreachableError(f"{self.url}: {error}") from None
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise PrometheusUnreachableError(f"{self.url}: unexpected answer: {error}") from None
        return [row for row in series if math.isfinite(row.value)]
