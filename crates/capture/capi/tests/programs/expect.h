/* Checks of the test programs. Each program returns 1 if a check failed. */
#ifndef EXPECT_H
#define EXPECT_H

#include <tensortap_record.h>

#include <stdio.h>

static int surprises;

static void expect(int good, const char *what)
{
    if (!good) {
        fprintf(stderr, "not as expected: %s (%s)\n", what, tt_last_error());
        surprises++;
    }
}
#define EXPECT(what) expect((what) ? 1 : 0, #what)

#endif
