# gpusim with its environment and its compiled engine. What a container does by itself is `make demo`:
#   docker build --tag gpusim .
#   docker run --rm gpusim
#   docker run --rm --interactive --tty gpusim bash        # .venv/bin is on the path: gpusim list
FROM python:3.13-slim AS base
# git: `make bench-pair` compares with the commit before.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git make \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --shell /bin/bash gpusim \
    && install --directory --owner gpusim /gpusim
USER gpusim

# What a devcontainer needs ends here: it has the repository from its host.
FROM base
WORKDIR /gpusim
# Nothing is installed twice, so there is nothing to keep downloads for.
ENV PIP_NO_CACHE_DIR=1 UV_NO_CACHE=1 PATH=/gpusim/.venv/bin:$PATH
COPY --chown=gpusim:gpusim . .
# The demo compiles the engine, for the kind of CPU that the image is built on; on another kind it is compiled again.
RUN make demo
CMD ["make", "demo"]
